package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.redis.ExampleRedis;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;
import javax.imageio.ImageIO;

/**
 * Records the page in a headless Chromium, in light and dark, while it plays an outage: {@code demo.png} and {@code
 * demo-dark.png}, moving PNGs at three times the speed.
 */
public final class Recording {

    private static final int WIDTH = 860;
    private static final double SCALE = 1.5;
    private static final long SECONDS = 30;
    private static final long FRAMES_A_SECOND = 2;
    private static final int SPEED = 3;

    /** Some seconds after the outage, when its effects show most. */
    private static final int POSTER = (int) (20 * FRAMES_A_SECOND);

    private Recording() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        Path directory = Path.of(args.length > 0 ? args[0] : "docs");
        try (Chromium chromium = Chromium.start()) {
            String port = WebFluxService.run(ExampleRedis.embedded(), "--server.port=0");
            URI page = URI.create("http://localhost:" + port);
            chromium.size(WIDTH, 600, SCALE);
            chromium.open(page.resolve("?still"));
            int height = chromium.awaitNumber("document.querySelector('.number b')?.textContent"
                    + " && document.querySelector('.plot').getBoundingClientRect().bottom");
            chromium.size(WIDTH, height + 12, SCALE);
            MovingPng light = new MovingPng(FRAMES_A_SECOND * SPEED);
            MovingPng dark = new MovingPng(FRAMES_A_SECOND * SPEED);
            chromium.open(page);
            long start = System.nanoTime();
            for (long frame = 1; frame <= SECONDS * FRAMES_A_SECOND; frame++) {
                LockSupport.parkNanos(start + frame * 1_000_000_000L / FRAMES_A_SECOND - System.nanoTime());
                light.add(picture(chromium, "light"));
                dark.add(picture(chromium, "dark"));
            }
            Files.write(directory.resolve("demo.png"), light.bytes(POSTER));
            Files.write(directory.resolve("demo-dark.png"), dark.bytes(POSTER));
        }
        // Ends the service, and then its Redis.
        System.exit(0);
    }

    private static BufferedImage picture(Chromium chromium, String colors) throws IOException {
        chromium.colorScheme(colors);
        return ImageIO.read(new ByteArrayInputStream(chromium.picture()));
    }
}
