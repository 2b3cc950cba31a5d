using System;
using System.Collections.Generic;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// --threads N that each wait once, in one of four ways, for --seconds N. Small stacks, so that
/// there can be 10,000.
/// </summary>
static class Idle
{
    const int StackBytes = 128 * 1024;

    static readonly object Room = new();
    static readonly SemaphoreSlim Permits = new(0);
    static readonly Socket Silent = Open();

    static bool isOver;
    static int waiting;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var count = arguments.Int("threads", 1000);
        var time = TimeSpan.FromSeconds(arguments.Double("seconds", 10));
        Action[] ways = { WaitInRoom, () => SleepHere(time), ReadHere, WaitForPermit };
        string[] names = { "WaitInRoom", "SleepHere", "ReadHere", "WaitForPermit" };
        var truths = new Truth[count];
        var threads = new List<Thread>();
        var begin = Crew.WallNow();
        for (var n = 0; n < count; n++)
        {
            var (number, way, name) = (n, ways[n % ways.Length], names[n % ways.Length]);
            threads.Add(new Thread(() => truths[number] = Live(name, way), StackBytes));
            threads[n].Start();
        }
        while (Volatile.Read(ref waiting) < count)
            Thread.Sleep(1);
        var started = Crew.WallNow() - begin;
        Console.WriteLine("WAITING " + started);
        Thread.Sleep(time);
        WakeAll(count);
        threads.ForEach(thread => thread.Join());
        new Truth().Add("start_ns", started).Add("threads", truths).Tell();
    }

    static Truth Live(string name, Action way)
    {
        var (cpu, wall) = (Kernel.ThreadCpu, Crew.WallNow());
        Interlocked.Increment(ref waiting);
        way();
        var truth = new Truth().Add("tid", Kernel.ThreadId).Add("name", name);
        return truth.Add("wall_ns", Crew.WallNow() - wall).Add("cpu_ns", Kernel.ThreadCpu - cpu);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitInRoom()
    {
        lock (Room)
        {
            while (!isOver)
                Monitor.Wait(Room);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void SleepHere(TimeSpan time)
    {
        Thread.Sleep(time);
        KeepFrame();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ReadHere()
    {
        Silent.Receive(new byte[1]);
        WakeReader();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForPermit()
    {
        Permits.Wait();
        KeepFrame();
    }

    static void WakeAll(int count)
    {
        lock (Room)
        {
            isOver = true;
            Monitor.PulseAll(Room);
        }
        Permits.Release(count);
        WakeReader();
    }

    /// <summary>Readers wake each other: the socket has no room for so many messages.</summary>
    static void WakeReader() => Silent.SendTo(new byte[1], Silent.LocalEndPoint!);

    /// <summary>Comes after a wait, which as a tail call would leave no frame.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void KeepFrame()
    {
    }

    static Socket Open()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        return socket;
    }
}
