using System;
using System.IO;
using System.IO.Pipes;
using System.Net.Sockets;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Passes what comes by the pipe named --pipe NAME on to --port N of this machine, and the answers
/// back. With --silent it takes connections and neither reads nor writes. Ends with its input.
/// </summary>
static class Relay
{
    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var (name, port) = (arguments.Text("pipe"), arguments.Int("port", 0));
        var isSilent = arguments.Has("silent");
        var first = Open(name);
        var accepting = new Thread(() => Accept(first, name, port, isSilent));
        accepting.IsBackground = true;
        accepting.Start();
        Console.WriteLine("LISTENING");
        Console.In.ReadToEnd();
    }

    static NamedPipeServerStream Open(string name)
    {
        const int Ends = NamedPipeServerStream.MaxAllowedServerInstances;
        var (mode, options) = (PipeTransmissionMode.Byte, PipeOptions.Asynchronous);
        return new NamedPipeServerStream(name, PipeDirection.InOut, Ends, mode, options);
    }

    static void Accept(NamedPipeServerStream end, string name, int port, bool isSilent)
    {
        while (true)
        {
            end.WaitForConnection();
            var taken = end;
            // The next one finds an end all the time.
            end = Open(name);
            if (!isSilent)
                new Thread(() => Pass(taken, port)) { IsBackground = true }.Start();
        }
    }

    static void Pass(NamedPipeServerStream pipe, int port)
    {
        using (pipe)
        using (var server = new TcpClient("127.0.0.1", port))
        {
            var stream = server.GetStream();
            var asking = new Thread(() => Copy(pipe, stream)) { IsBackground = true };
            asking.Start();
            Copy(stream, pipe);
            // A pipe that is closed drops what nobody has read: the other end closes when it has.
            asking.Join(TimeSpan.FromSeconds(10));
        }
    }

    /// <summary>Until either of them is over.</summary>
    static void Copy(Stream from, Stream to)
    {
        try
        {
            from.CopyTo(to);
        }
        catch (Exception error) when (error is IOException or ObjectDisposedException)
        {
        }
    }
}
