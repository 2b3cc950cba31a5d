using System.Net;
using System.Net.Sockets;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>Asynchronous sockets: the continuations run on the thread pool.</summary>
static class Traffic
{
    public static void Echo(Pulse pulse) => EchoAsync(pulse).GetAwaiter().GetResult();

    static async Task EchoAsync(Pulse pulse)
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        using var client = new TcpClient();
        await client.ConnectAsync(IPAddress.Loopback, ((IPEndPoint)listener.LocalEndpoint).Port);
        using var server = await listener.AcceptTcpClientAsync();
        listener.Stop();
        var answering = AnswerAsync(server.GetStream());
        var message = new byte[64];
        while (pulse.Continues)
        {
            await client.GetStream().WriteAsync(message, 0, message.Length);
            for (var got = 0; got < message.Length;)
                got += await client.GetStream().ReadAsync(message, got, message.Length - got);
            pulse.Beat();
        }
        client.Client.Shutdown(SocketShutdown.Send);
        await answering;
    }

    static async Task AnswerAsync(NetworkStream stream)
    {
        var buffer = new byte[64];
        int got;
        while ((got = await stream.ReadAsync(buffer, 0, buffer.Length)) > 0)
            await stream.WriteAsync(buffer, 0, got);
    }
}
