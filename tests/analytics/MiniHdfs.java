// A name node and a data node in one process, until the standard input ends.

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("dfs.replication", "1");
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitClusterUp();
        System.out.println("serving " + cluster.getHttpUri(0));
        while (System.in.read() >= 0) {
        }
        cluster.shutdown();
    }
}
