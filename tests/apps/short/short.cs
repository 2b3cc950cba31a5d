using System;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>Many threads that live for a few milliseconds: --threads N, --at-once N.</summary>
static class Short
{
    const int CpuMillisMax = 20;

    static long cpu;
    static long count;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var total = arguments.Int("threads", 2_000);
        var atOnce = arguments.Int("at-once", 16);
        var random = new Random(1);
        var places = new SemaphoreSlim(atOnce);
        for (var i = 0; i < total; i++)
        {
            var millis = random.Next(1, CpuMillisMax + 1);
            places.Wait();
            new Thread(() => Live(millis, places)) { Name = "short" }.Start();
        }
        for (var i = 0; i < atOnce; i++)
            places.Wait();
        new Truth().Add("threads", count).Add("cpu_ns", cpu).Tell();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Live(int millis, SemaphoreSlim places)
    {
        Work.Spin(millis / 1000.0);
        Interlocked.Increment(ref count);
        // All of the thread's CPU time, so also what the runtime spent on its start.
        Interlocked.Add(ref cpu, Kernel.ThreadCpu);
        places.Release();
    }
}
