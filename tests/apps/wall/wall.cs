using System;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Threads that wait and compute, each in a method that says so: --seconds N of each wait,
/// --compute-seconds N for the one that reads and then computes.
/// </summary>
static class Wall
{
    static readonly object Gate = new();

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 4);
        var computeSeconds = arguments.Double("compute-seconds", 1);
        var (silent, reader) = Connect();
        var (partner, otherReader) = Connect();
        var held = new ManualResetEventSlim();

        var crew = new Crew();
        crew.Add("sleeper", truth => Time(truth, "SleepHere", () => SleepHere(seconds)));
        crew.Add("holder", truth => Time(truth, "HoldHere", () => HoldHere(seconds, held)));
        crew.Add("locker", truth =>
        {
            held.Wait();
            Time(truth, "LockHere", LockHere);
        });
        crew.Add("reader", truth => Time(truth, "ReadHere", () => ReadHere(reader)));
        crew.Add("cpu", truth => Time(truth, "ComputeHere", () => ComputeHere(seconds)));
        crew.Add("read-then-compute", truth =>
        {
            Time(truth, "ReadHere", () => ReadHere(otherReader));
            Time(truth, "ComputeHere", () => ComputeHere(computeSeconds));
        });
        crew.Add("sender", truth =>
            Time(truth, "SendLater", () => SendLater(seconds, silent, partner)));
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    /// <summary>Adds the wall and the CPU time of the action, named after its method.</summary>
    static void Time(Truth truth, string method, Action action)
    {
        var (cpu, wall) = (Kernel.ThreadCpu, Crew.WallNow());
        action();
        truth.Add(method + "_wall_ns", Crew.WallNow() - wall);
        truth.Add(method + "_cpu_ns", Kernel.ThreadCpu - cpu);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void SleepHere(double seconds)
    {
        Thread.Sleep(TimeSpan.FromSeconds(seconds));
        KeepFrame();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void HoldHere(double seconds, ManualResetEventSlim held)
    {
        lock (Gate)
        {
            held.Set();
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void LockHere()
    {
        Monitor.Enter(Gate);
        Monitor.Exit(Gate);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ReadHere(Socket socket)
    {
        socket.Receive(new byte[1]);
        KeepFrame();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ComputeHere(double seconds)
    {
        // By the wall clock: on a busy machine the same CPU time would take longer than the waits.
        var end = Crew.WallNow() + (long)(seconds * 1e9);
        while (Crew.WallNow() < end)
            Work.Multiply(20_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void SendLater(double seconds, Socket first, Socket second)
    {
        Thread.Sleep(TimeSpan.FromSeconds(seconds));
        first.Send(new byte[1]);
        second.Send(new byte[1]);
    }

    /// <summary>Comes after a wait, which as a tail call would leave no frame.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void KeepFrame()
    {
    }

    static (Socket, Socket) Connect()
    {
        using var listener = new Socket(SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        var client = new Socket(SocketType.Stream, ProtocolType.Tcp);
        client.Connect(listener.LocalEndPoint!);
        return (client, listener.Accept());
    }
}
