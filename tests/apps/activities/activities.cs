using System;
using System.Collections.Generic;
using System.Diagnostics;

namespace Corprof.TestApps;

/// <summary>
/// Spans without a web server: threads that work for two kinds of them, with labels, for --seconds
/// N. With --verify the block is held against what it must say in each situation; with --bench the
/// cost is measured of a switch and of a span's start and end.
/// </summary>
static class Activities
{
    public const string SourceName = "Corprof.TestApps.Activities";

    public static readonly ActivitySource Source = new(SourceName);

    // Of a turn's CPU time; the rest of the turn is outside of spans.
    const double HeavySeconds = 0.030;
    const double LightSeconds = 0.010;
    const double OutsideSeconds = 0.005;

    static int Main(string[] words)
    {
        var arguments = new Arguments(words);
        using var listener = new ActivityListener
        {
            ShouldListenTo = source => source.Name == SourceName,
            Sample = (ref ActivityCreationOptions<ActivityContext> _) =>
                ActivitySamplingResult.AllData,
        };
        if (!arguments.Has("no-listener"))
            ActivitySource.AddActivityListener(listener);
        if (arguments.Has("verify"))
            return Verify.Run();
        if (arguments.Has("bench"))
            Bench.Run(arguments.Int("rounds", 200_000));
        else
            Work(arguments.Double("seconds", 5), arguments.Int("threads", 2));
        return 0;
    }

    static void Work(double seconds, int threads)
    {
        var crew = new Crew();
        for (var i = 0; i < threads; i++)
            crew.Add("worker-" + i, truth => TakeTurns(seconds, truth));
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    static void TakeTurns(double seconds, Truth truth)
    {
        var sums = new SortedDictionary<string, long>(StringComparer.Ordinal);
        var end = Crew.WallNow() + (long)(seconds * 1e9);
        for (var turn = 0; Crew.WallNow() < end; turn++)
        {
            var tenant = turn % 4 == 0 ? "small" : "large";
            using (Labels.Set("tenant", tenant))
            {
                Measure(sums, "heavy", tenant, HeavySeconds);
                Measure(sums, "light", tenant, LightSeconds);
            }
            Spend(sums, "outside", () => TestApps.Work.Spin(OutsideSeconds));
        }
        foreach (var (name, sum) in sums)
            truth.Add(name, sum);
    }

    /// <summary>A request with a child, which has half of its CPU time.</summary>
    static void Measure(SortedDictionary<string, long> sums, string name, string tenant, double cpu)
    {
        Spend(sums, $"{name}_{tenant}", () =>
        {
            using var request = Source.StartActivity(name);
            TestApps.Work.Spin(cpu / 2);
            using var child = Source.StartActivity(name + "-child");
            TestApps.Work.Spin(cpu / 2);
        });
    }

    static void Spend(SortedDictionary<string, long> sums, string name, Action action)
    {
        var (cpu, wall) = (Kernel.ThreadCpu, Crew.WallNow());
        action();
        Add(sums, name + "_cpu_ns", Kernel.ThreadCpu - cpu);
        Add(sums, name + "_wall_ns", Crew.WallNow() - wall);
        Add(sums, name + "_count", 1);
    }

    static void Add(SortedDictionary<string, long> sums, string name, long value)
    {
        sums.TryGetValue(name, out var sum);
        sums[name] = sum + value;
    }
}
