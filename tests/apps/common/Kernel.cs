using System;
using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>What the kernel knows about threads and the process.</summary>
static unsafe class Kernel
{
    const int ProcessClock = 2;
    const int ThreadClock = 3;
    const long NanosPerSecond = 1_000_000_000;

    [StructLayout(LayoutKind.Sequential)]
    struct TimeSpec
    {
        public long Seconds;
        public long Nanos;
    }

    // The head of struct rusage; the kernel fills 14 more fields.
    [StructLayout(LayoutKind.Sequential, Size = 144)]
    struct ResourceUsage
    {
        public long UserSeconds;
        public long UserMicros;
        public long SystemSeconds;
        public long SystemMicros;
    }

    [DllImport("libc", EntryPoint = "gettid")]
    static extern int GetTid();

    [DllImport("libc", EntryPoint = "clock_gettime")]
    static extern int ClockGetTime(int clock, TimeSpec* time);

    [DllImport("libc", EntryPoint = "getrusage")]
    static extern int GetResourceUsage(int who, ResourceUsage* usage);

    /// <summary>The OS id of the calling thread.</summary>
    public static int ThreadId => GetTid();

    /// <summary>The CPU time of the calling thread, in nanoseconds.</summary>
    public static long ThreadCpu => ReadClock(ThreadClock);

    /// <summary>The CPU time of the whole process, in nanoseconds.</summary>
    public static long ProcessCpu => ReadClock(ProcessClock);

    /// <summary>The CPU time of the whole process as getrusage counts it, in nanoseconds.</summary>
    public static long ProcessUsage
    {
        get
        {
            ResourceUsage usage;
            GetResourceUsage(0, &usage);
            var micros = usage.UserMicros + usage.SystemMicros;
            return (usage.UserSeconds + usage.SystemSeconds) * NanosPerSecond + micros * 1000;
        }
    }

    static long ReadClock(int clock)
    {
        TimeSpec time;
        ClockGetTime(clock, &time);
        return time.Seconds * NanosPerSecond + time.Nanos;
    }
}
