using System;
using System.IO.Pipes;
using System.Net.Sockets;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>
/// Passes on to --port N of this machine what comes in at the named pipe --pipe NAME, and back what
/// is answered: an agent of others, as far as who connects can tell. Runs until it is ended.
/// </summary>
static class Relay
{
    static async Task Main(string[] words)
    {
        var arguments = new Arguments(words);
        var (name, port) = (arguments.Text("pipe"), arguments.Int("port", 0));
        while (true)
        {
            var pipe = new NamedPipeServerStream(
                name, PipeDirection.InOut, NamedPipeServerStream.MaxAllowedServerInstances,
                PipeTransmissionMode.Byte, PipeOptions.Asynchronous);
            await pipe.WaitForConnectionAsync();
            _ = Pass(pipe, port);
        }
    }

    static async Task Pass(NamedPipeServerStream pipe, int port)
    {
        using (pipe)
        using (var connection = new TcpClient())
        {
            await connection.ConnectAsync("127.0.0.1", port);
            var socket = connection.GetStream();
            // Ends with the pipe, or with the process.
            _ = pipe.CopyToAsync(socket);
            await socket.CopyToAsync(pipe);
            if (OperatingSystem.IsWindows())
                pipe.WaitForPipeDrain();
        }
    }
}
