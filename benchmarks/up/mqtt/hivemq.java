// Starts HiveMQ CE with the files of a folder. It admits everyone, as it does where it is embedded.

import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Files;
import java.nio.file.Path;

class Start {
  public static void main(String[] words) throws Exception {
    Path folder = Path.of(words[0]);
    EmbeddedHiveMQ.builder()
        .withConfigurationFolder(folder)
        .withDataFolder(Files.createDirectory(folder.resolve("data")))
        .withExtensionsFolder(folder)
        .build()
        .start()
        .join();
  }
}
