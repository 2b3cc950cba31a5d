using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Named threads, each with a truth of its own: OS id, name, CPU time from its first to its last
/// instruction, and lifetime.
/// </summary>
sealed class Crew
{
    const double NanosPerTick = 1e9;

    readonly List<Thread> threads = new();
    readonly List<Truth> truths = new();

    /// <summary>Adds a thread; its work may add more facts to its truth.</summary>
    public void Add(string name, Action<Truth> work)
    {
        var truth = new Truth();
        truths.Add(truth);
        threads.Add(new Thread(() => Live(name, work, truth)) { Name = name });
    }

    /// <summary>Starts all threads and waits for their end.</summary>
    public void Run()
    {
        threads.ForEach(thread => thread.Start());
        threads.ForEach(thread => thread.Join());
    }

    /// <summary>The truths, in the order in which the threads were added.</summary>
    public IEnumerable<Truth> Truths => truths;

    /// <summary>Nanoseconds of the wall clock, from an arbitrary origin.</summary>
    public static long WallNow() =>
        (long)(Stopwatch.GetTimestamp() * (NanosPerTick / Stopwatch.Frequency));

    static void Live(string name, Action<Truth> work, Truth truth)
    {
        var (cpu, wall) = (Kernel.ThreadCpu, WallNow());
        truth.Add("tid", Kernel.ThreadId).Add("name", name);
        work(truth);
        truth.Add("wall_ns", WallNow() - wall).Add("cpu_ns", Kernel.ThreadCpu - cpu);
    }
}
