using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>What the kernel knows about threads and the process.</summary>
static unsafe partial class Kernel
{
    const int ProcessClock = 2;
    const int ThreadClock = 3;
    // Of a thread by its id, as the kernel's scheduler counts.
    const int OtherThreadClock = 6;
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
    public static int ThreadId => IsWindows ? WindowsThreadId() : GetTid();

    /// <summary>The CPU time of the calling thread, in nanoseconds.</summary>
    public static long ThreadCpu => IsWindows ? WindowsThreadCpu() : ReadClock(ThreadClock);

    /// <summary>
    /// A clock for parts of a millisecond of work, in nanoseconds: the calling thread's CPU time,
    /// or the time of day on Windows, where thread times have steps of 10 ms and more.
    /// </summary>
    public static long SliceClock => IsWindows ? Crew.WallNow() : ThreadCpu;

    /// <summary>The CPU time of the whole process, in nanoseconds.</summary>
    public static long ProcessCpu => IsWindows ? WindowsProcessCpu() : ReadClock(ProcessClock);

    /// <summary>The CPU time of the whole process as getrusage counts it, in nanoseconds.</summary>
    public static long ProcessUsage
    {
        get
        {
            if (IsWindows)
                return WindowsProcessCpu();
            ResourceUsage usage;
            GetResourceUsage(0, &usage);
            var micros = usage.UserMicros + usage.SystemMicros;
            return (usage.UserSeconds + usage.SystemSeconds) * NanosPerSecond + micros * 1000;
        }
    }

    /// <summary>The CPU time of another thread, in nanoseconds; 0 once it has ended.</summary>
    public static long CpuOf(int thread) => ReadClock((~thread << 3) | OtherThreadClock);

    /// <summary>All threads of the process by id, with the names that the kernel has.</summary>
    public static IEnumerable<(int Id, string Name)> Threads()
    {
        // Windows keeps no such list by name.
        if (IsWindows)
            yield break;
        foreach (var folder in Directory.GetDirectories("/proc/self/task"))
        {
            string name;
            try
            {
                name = File.ReadAllText(folder + "/comm").TrimEnd('\n');
            }
            catch (IOException)
            {
                continue;
            }
            yield return (int.Parse(Path.GetFileName(folder)), name);
        }
    }

    static long ReadClock(int clock)
    {
        TimeSpec time;
        ClockGetTime(clock, &time);
        return time.Seconds * NanosPerSecond + time.Nanos;
    }
}
