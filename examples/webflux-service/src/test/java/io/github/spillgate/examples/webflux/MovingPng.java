package io.github.spillgate.examples.webflux;

import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

/**
 * An animated PNG. It begins with a poster, one of its frames: a reader sees it first, and programs that do not know
 * animated PNGs show nothing else. Each further frame contains only the pixels that differ from the previous one; the
 * others are transparent.
 */
final class MovingPng {

    private static final int POSTER_HOLDS = 3;

    private final long framesASecond;
    private final List<BufferedImage> frames = new ArrayList<>();
    private int sequence;

    MovingPng(long framesASecond) {
        this.framesASecond = framesASecond;
    }

    void add(BufferedImage frame) {
        frames.add(frame);
    }

    /**
     * @param poster the number of the frame that is the poster, from 0
     */
    byte[] bytes(int poster) {
        BufferedImage first = frames.get(0);
        int width = first.getWidth();
        int height = first.getHeight();
        ByteArrayOutputStream png = new ByteArrayOutputStream();
        png.writeBytes(new byte[] {(byte) 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
        // Eight bits for each of red, green, blue and alpha.
        chunk(png, "IHDR", ints(width, height), new byte[] {8, 6, 0, 0, 0});
        chunk(png, "acTL", ints(frames.size() + 1, 0));
        int[] shown = pixels(poster);
        chunk(png, "fcTL", control(width, height, POSTER_HOLDS * framesASecond));
        chunk(png, "IDAT", deflated(shown, width, height));
        for (int i = 0; i < frames.size(); i++) {
            int[] pixels = pixels(i);
            chunk(png, "fcTL", control(width, height, 1));
            chunk(png, "fdAT", ints(sequence++), deflated(difference(shown, pixels), width, height));
            shown = pixels;
        }
        chunk(png, "IEND");
        return png.toByteArray();
    }

    private byte[] control(int width, int height, long delay) {
        return ByteBuffer.allocate(26)
                .put(ints(sequence++, width, height, 0, 0))
                .putShort((short) delay)
                .putShort((short) framesASecond)
                // Keep the previous frame, and draw over it.
                .put((byte) 0)
                .put((byte) 1)
                .array();
    }

    private int[] pixels(int frame) {
        BufferedImage image = frames.get(frame);
        return image.getRGB(0, 0, image.getWidth(), image.getHeight(), null, 0, image.getWidth());
    }

    private static int[] difference(int[] shown, int[] pixels) {
        int[] difference = new int[pixels.length];
        Arrays.setAll(difference, at -> pixels[at] == shown[at] ? 0 : pixels[at]);
        return difference;
    }

    private static byte[] deflated(int[] pixels, int width, int height) {
        ByteBuffer rows = ByteBuffer.allocate(height * (1 + 4 * width));
        for (int at = 0; at < pixels.length; at++) {
            if (at % width == 0) {
                // No filter.
                rows.put((byte) 0);
            }
            rows.putInt(Integer.rotateLeft(pixels[at], 8));
        }
        Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
        deflater.setInput(rows.array());
        deflater.finish();
        byte[] deflated = new byte[rows.capacity() + 1024];
        int length = deflater.deflate(deflated);
        deflater.end();
        return Arrays.copyOf(deflated, length);
    }

    private static void chunk(ByteArrayOutputStream png, String name, byte[]... parts) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        content.writeBytes(name.getBytes(StandardCharsets.US_ASCII));
        for (byte[] part : parts) {
            content.writeBytes(part);
        }
        CRC32 checksum = new CRC32();
        checksum.update(content.toByteArray());
        png.writeBytes(ints(content.size() - name.length()));
        png.writeBytes(content.toByteArray());
        png.writeBytes(ints((int) checksum.getValue()));
    }

    private static byte[] ints(int... values) {
        ByteBuffer bytes = ByteBuffer.allocate(4 * values.length);
        for (int value : values) {
            bytes.putInt(value);
        }
        return bytes.array();
    }
}
