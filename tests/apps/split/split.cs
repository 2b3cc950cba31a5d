using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>One thread divides its CPU time: --share PERCENT of A, --seconds N.</summary>
static class Split
{
    // About a millisecond, so that the two reads of the clock around it do not count.
    const int Rounds = 1_000_000;

    static long cpuInA;
    static long cpuInB;
    static long sink;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var share = arguments.Double("share", 50) / 100;
        var seconds = arguments.Double("seconds", 5);
        var truth = new Truth();
        var worker = new Thread(() => Alternate(share, seconds, truth)) { Name = "splitter" };
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
            // The method that is behind its share has the turn.
            if (cpuInA <= share * (cpuInA + cpuInB))
            {
                MethodA();
                cpuInA += Kernel.ThreadCpu - before;
            }
            else
            {
                MethodB();
                cpuInB += Kernel.ThreadCpu - before;
            }
        }
        truth.Add("tid", Kernel.ThreadId)
            .Add("cpu_a_ns", cpuInA)
            .Add("cpu_b_ns", cpuInB)
            .Add("thread_cpu_ns", Kernel.ThreadCpu - begin);
    }

    // Each with a loop of its own: were it in a common method, that one would have the samples.
    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void MethodA()
    {
        long x = 1;
        for (var i = 0; i < Rounds; i++)
            x = x * 31 + i;
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void MethodB()
    {
        long x = 7;
        for (var i = 0; i < Rounds; i++)
            x = x * 37 - i;
        sink -= x;
    }
}
