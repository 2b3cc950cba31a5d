using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>The cost of the hook: run it with and without.</summary>
static class Bench
{
    const int Repetitions = 9;

    public static void Run(int rounds)
    {
        var hasHook = AppDomain.CurrentDomain.GetData("Corprof.Labels.Set") != null;
        var truth = new Truth().Add("hook", hasHook ? 1 : 0);
        Measure(truth, "start_stop", rounds, () => Activities.Source.StartActivity("a")!.Dispose());
        using (Activities.Source.StartActivity("root"))
        {
            Measure(truth, "child_start_stop", rounds,
                () => Activities.Source.StartActivity("a")!.Dispose());
        }
        Measure(truth, "label", rounds, () => Labels.Set("tenant", "a").Dispose());
        using (var other = new ActivitySource("Corprof.TestApps.Unheard"))
            Measure(truth, "unheard_start", rounds, () => other.StartActivity("a")?.Dispose());

        // A switch there and one back, as at each turn of a pool's thread.
        var empty = ExecutionContext.Capture()!;
        Measure(truth, "run_in_empty", rounds, () => ExecutionContext.Run(empty, Nothing, null));
        using (Activities.Source.StartActivity("root"))
        {
            var context = ExecutionContext.Capture()!;
            using (Activities.Source.StartActivity("child"))
            {
                Measure(truth, "two_switches", rounds,
                    () => ExecutionContext.Run(context, Nothing, null));
            }
            truth.Add("yield_ns", Yields(rounds).GetAwaiter().GetResult());
        }
        truth.Tell();
    }

    static readonly ContextCallback Nothing = _ => { };

    /// <summary>The best of some repetitions: what it costs when nobody else disturbs.</summary>
    static void Measure(Truth truth, string name, int rounds, Action action)
    {
        long best = long.MaxValue;
        long bytes = 0;
        for (var repetition = 0; repetition < Repetitions; repetition++)
        {
            var allocated = GC.GetAllocatedBytesForCurrentThread();
            var begin = Stopwatch.GetTimestamp();
            for (var i = 0; i < rounds; i++)
                action();
            best = Math.Min(best, Stopwatch.GetTimestamp() - begin);
            bytes = GC.GetAllocatedBytesForCurrentThread() - allocated;
        }
        var picos = best * 1e12 / Stopwatch.Frequency / rounds;
        truth.Add(name + "_ps", (long)picos).Add(name + "_bytes", bytes / rounds);
    }

    static async Task<long> Yields(int rounds)
    {
        long best = long.MaxValue;
        for (var repetition = 0; repetition < Repetitions; repetition++)
        {
            var begin = Stopwatch.GetTimestamp();
            for (var i = 0; i < rounds; i++)
                await Task.Yield();
            best = Math.Min(best, Stopwatch.GetTimestamp() - begin);
        }
        return (long)(best * 1e9 / Stopwatch.Frequency / rounds);
    }
}
