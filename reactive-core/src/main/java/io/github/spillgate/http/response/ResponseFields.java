package io.github.spillgate.http.response;

import java.util.List;

/** The header fields of a response that is about to be sent. */
public interface ResponseFields {

    /**
     * Returns the values of a field.
     *
     * @param name the name, in any case
     * @return the values of all its lines; empty if there are none
     */
    List<String> get(String name);

    /**
     * Sets a field to one value, replacing all values it had.
     *
     * @param name the name
     * @param value the value
     */
    void set(String name, String value);
}
