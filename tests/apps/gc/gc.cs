using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Reflection;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Threads that make garbage, beside one that only computes, one that only sleeps, and one that
/// sleeps shortly and often; it tells what the runtime itself knows of its collections and pauses.
/// <para>
/// gc --seconds 4 --threads 2 --live 50 [--induced 100]: so many threads allocate, with so many
/// megabytes that live on; or, each of so many milliseconds, one thread asks for a collection, of
/// one generation after the other.
/// </para>
/// </summary>
static class Gc
{
    const int Megabyte = 1 << 20;
    const int NanosPerTick = 100;

    sealed class Node
    {
        public Node Next;
        public byte[] Bytes;
    }

    // .NET Core 3.1 has neither.
    static readonly MethodInfo? Duration = typeof(GC).GetMethod("GetTotalPauseDuration");
    static readonly Type? KindType = typeof(GC).Assembly.GetType("System.GCKind");
    static readonly MethodInfo? Background =
        KindType == null ? null : typeof(GC).GetMethod("GetGCMemoryInfo", new[] { KindType });
    static readonly object[]? Kind =
        KindType == null ? null : new[] { Enum.Parse(KindType, "Background") };

    static volatile bool ends;
    static readonly HashSet<long> backgrounds = new();

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var watch = Stopwatch.StartNew();
        var seconds = arguments.Double("seconds", 4);
        var live = arguments.Int("live", 50) * Megabyte;
        var induced = arguments.Int("induced", 0);
        // However slow the machine is.
        bool Continues() => watch.Elapsed.TotalSeconds < seconds || GC.CollectionCount(0) < 8;
        var crew = new Crew();
        crew.Add("computer", truth => InPauses(truth, () =>
        {
            // What compiles it may wait for others.
            Counts();
            Work.Multiply(1);
            var before = Counts();
            ComputeHere();
            var after = Counts();
            truth
                .Add("compute_wall_ns", after.Wall - before.Wall)
                .Add("compute_cpu_ns", after.Cpu - before.Cpu)
                .Add("compute_delay_ns", after.Delay - before.Delay);
        }));
        crew.Add("sleeper", truth => InPauses(truth, () =>
        {
            truth.Add("sleep_ns", (long)(seconds * 1e9));
            Thread.Sleep((int)(seconds * 1000));
        }));
        crew.Add("napper", truth => InPauses(truth, NapHere));
        if (induced > 0)
            crew.Add("inducer", truth => InPauses(truth, () =>
                Induce(truth, Continues, induced, live)));
        var threads = arguments.Int("threads", 1);
        var running = Math.Max(threads, induced > 0 ? 1 : 0);
        for (var i = 0; i < threads; i++)
            crew.Add("allocator-" + i, truth => InPauses(truth, () =>
            {
                AllocateHere(Continues, live / threads);
                if (Interlocked.Decrement(ref running) == 0)
                    ends = true;
            }));
        if (threads == 0)
            new Thread(() =>
            {
                Thread.Sleep((int)(seconds * 1000));
                ends = true;
            }).Start();
        crew.Run();
        Note();
        // It waits for the end of one in the background.
        GC.Collect();
        new Truth()
            .Add("gen0", GC.CollectionCount(0) - GC.CollectionCount(1))
            .Add("gen1", GC.CollectionCount(1) - GC.CollectionCount(2))
            .Add("gen2", GC.CollectionCount(2))
            .Add("backgrounds", backgrounds.Count)
            .Add("server", GCSettings.IsServerGC ? 1 : 0)
            .Add("concurrent", GCSettings.LatencyMode == GCLatencyMode.Interactive ? 1 : 0)
            .Add("pause_ns", Pauses())
            .Add("threads", crew.Truths)
            .Tell();
    }

    /// <summary>The runtime's pauses for collections; 0 where it doesn't tell.</summary>
    static long Pauses()
    {
        var duration = (TimeSpan?)Duration?.Invoke(null, null) ?? TimeSpan.Zero;
        return duration.Ticks * NanosPerTick;
    }

    static void InPauses(Truth truth, Action work)
    {
        var before = Pauses();
        work();
        truth.Add("pause_ns", Pauses() - before);
    }

    /// <summary>
    /// The time, the calling thread's CPU time, and for how long it was ready to run while others
    /// had the processors, in nanoseconds.
    /// </summary>
    static (long Wall, long Cpu, long Delay) Counts() =>
        (Crew.WallNow(), Kernel.ThreadCpu,
            long.Parse(File.ReadAllText("/proc/thread-self/schedstat").Split(' ')[1]));

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ComputeHere()
    {
        while (!ends)
            Work.Multiply(20_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void NapHere()
    {
        while (!ends)
            Thread.Sleep(1);
    }

    static void Induce(Truth truth, Func<bool> continues, int millis, int bytes)
    {
        var kept = new byte[bytes / 1000][];
        for (var i = 0; i < kept.Length; i++)
            kept[i] = new byte[1000 - 24];
        var before = Kernel.ThreadCpu;
        for (var generation = 0; continues(); generation = (generation + 1) % 3)
        {
            GC.Collect(generation);
            Thread.Sleep(millis);
        }
        truth.Add("collect_cpu_ns", Kernel.ThreadCpu - before);
        GC.KeepAlive(kept);
        ends = true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void AllocateHere(Func<bool> continues, int bytes)
    {
        const int Size = 200;
        var random = new Random(1);
        var kept = new Node[Math.Max(1, bytes / Size)];
        while (continues())
        {
            for (var i = 0; i < 10_000; i++)
            {
                var other = kept[random.Next(kept.Length)];
                kept[random.Next(kept.Length)] =
                    new Node { Next = other, Bytes = new byte[random.Next(16, Size)] };
                // Else the lists would grow for ever.
                if (other != null)
                    other.Next = null;
            }
            Note();
        }
        GC.KeepAlive(kept);
    }

    /// <summary>Notes the last collection that went on in the background.</summary>
    static void Note()
    {
        if (Background?.Invoke(null, Kind) is not { } info)
            return;
        var index = (long)info.GetType().GetProperty("Index").GetValue(info);
        if (index > 0)
            lock (backgrounds)
                backgrounds.Add(index);
    }
}
