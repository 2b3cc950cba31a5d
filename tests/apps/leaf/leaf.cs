using System;
using System.Diagnostics;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// A loop without any call against a method full of calls: --share PERCENT of the loop,
/// --seconds N.
/// A profiler that looks only where the runtime can stop a thread misses the loop. Each turn has a
/// random length, since turns of equal length may fall into step with the kernel's ticks.
/// </summary>
static class Leaf
{
    static readonly int[] Left = Enumerable.Range(0, 4_096).ToArray();
    static readonly int[] Right = Enumerable.Range(7, 4_096).ToArray();

    static readonly Random Chance = new(7);

    static long cpuInLoop;
    static long cpuInCalls;
    static long sink;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var share = arguments.Double("share", 70) / 100;
        var seconds = arguments.Double("seconds", 5);
        var truth = new Truth();
        var worker = new Thread(() => Alternate(share, seconds, truth)) { Name = "leaf" };
        worker.Start();
        worker.Join();
        truth.Tell();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Alternate(double share, double seconds, Truth truth)
    {
        var begin = Kernel.ThreadCpu;
        var watch = Stopwatch.StartNew();
        while (watch.Elapsed.TotalSeconds < seconds)
        {
            var before = Kernel.ThreadCpu;
            if (cpuInLoop <= share * (cpuInLoop + cpuInCalls))
            {
                sink += HotLeaf(Left, Right, Chance.Next(100, 700));
                cpuInLoop += Kernel.ThreadCpu - before;
            }
            else
            {
                sink += WithCalls(Chance.Next(20_000, 180_000));
                cpuInCalls += Kernel.ThreadCpu - before;
            }
        }
        truth.Add("tid", Kernel.ThreadId)
            .Add("cpu_leaf_ns", cpuInLoop)
            .Add("cpu_calls_ns", cpuInCalls)
            .Add("thread_cpu_ns", Kernel.ThreadCpu - begin);
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static long HotLeaf(int[] left, int[] right, int rounds)
    {
        long sum = 0;
        for (var round = 0; round < rounds; round++)
        {
            for (var i = 0; i < left.Length && i < right.Length; i++)
                sum += (left[i] ^ right[i]) * (sum & 3);
        }
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static long WithCalls(int calls)
    {
        long sum = 0;
        for (var i = 0; i < calls; i++)
            sum = Callee(sum, i);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static long Callee(long sum, int i) => sum * 31 + i % 7;
}
