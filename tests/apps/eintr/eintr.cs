using System;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>
/// Threads that wait in system calls which a signal would cut short: --seconds N, --tight for
/// timeouts of 1 ms with work between.
/// </summary>
static unsafe class Interruption
{
    const int TryAgain = 11;
    const int SocketLevel = 1;
    const int ReceiveTimeout = 20;

    // The kernel counts a receive timeout in ticks, of up to 10 ms, and may end it one tick early.
    const long ReceiveToleranceNanos = 10_000_000;

    [StructLayout(LayoutKind.Sequential)]
    struct Time
    {
        public long Seconds;
        public long Fraction;
    }

    [DllImport("libc", EntryPoint = "poll", SetLastError = true)]
    static extern int Poll(void* descriptors, ulong count, int timeoutMillis);

    [DllImport("libc", EntryPoint = "nanosleep", SetLastError = true)]
    static extern int NanoSleep(Time* wanted, Time* remaining);

    [DllImport("libc", EntryPoint = "usleep", SetLastError = true)]
    static extern int MicroSleep(uint micros);

    [DllImport("libc", EntryPoint = "recv", SetLastError = true)]
    static extern nint Receive(nint socket, byte* buffer, nuint length, int flags);

    [DllImport("libc", EntryPoint = "setsockopt", SetLastError = true)]
    static extern int SetOption(nint socket, int level, int option, void* value, uint length);

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var millis = arguments.Has("tight") ? 1 : 50;
        var end = Crew.WallNow() + (long)(arguments.Double("seconds", 5) * 1e9);
        using var idle = IdleSocket(millis);
        var handle = idle.Handle;

        var crew = new Crew();
        crew.Add("poll", truth => Count(truth, end, millis, 0, () => PollHere(millis)));
        crew.Add("nanosleep", truth => Count(truth, end, millis, 0, () => NanoSleepHere(millis)));
        crew.Add("usleep", truth => Count(truth, end, millis, 0, () => MicroSleepHere(millis)));
        crew.Add("recv", truth =>
            Count(truth, end, millis, ReceiveToleranceNanos, () => ReceiveHere(handle)));
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    /// <summary>Calls over and over; a call tells whether it ended by its timeout alone.</summary>
    static void Count(Truth truth, long end, int millis, long tolerance, Func<bool> call)
    {
        long calls = 0, interrupted = 0, early = 0, earliest = 0;
        for (; Crew.WallNow() < end; calls++)
        {
            var begin = Crew.WallNow();
            var whole = call();
            var missing = millis * 1_000_000L - (Crew.WallNow() - begin);
            interrupted += whole ? 0 : 1;
            early += missing > tolerance ? 1 : 0;
            earliest = Math.Max(earliest, missing);
            Work.Multiply(50_000);
        }
        truth.Add("calls", calls).Add("interrupted", interrupted);
        truth.Add("early", early).Add("early_max_ns", earliest);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool PollHere(int millis) => Poll(null, 0, millis) == 0;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool NanoSleepHere(int millis)
    {
        var wanted = new Time { Fraction = millis * 1_000_000L };
        return NanoSleep(&wanted, null) == 0;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool MicroSleepHere(int millis) => MicroSleep((uint)millis * 1000) == 0;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool ReceiveHere(IntPtr socket)
    {
        byte buffer;
        return Receive(socket, &buffer, 1, 0) == -1 && Marshal.GetLastWin32Error() == TryAgain;
    }

    /// <summary>A socket that nobody sends to.</summary>
    static Socket IdleSocket(int millis)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        // Not the property of Socket, so that nothing of the runtime stands between.
        var timeout = new Time { Fraction = millis * 1000L };
        var size = (uint)sizeof(Time);
        if (SetOption(socket.Handle, SocketLevel, ReceiveTimeout, &timeout, size) != 0)
            throw new InvalidOperationException("the receive timeout was not accepted");
        return socket;
    }
}
