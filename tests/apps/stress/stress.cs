using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// All that makes a profiler's life hard, at once: --threads N, --seconds N, --library LIBRARY, or
/// without that not what needs it. Ends with code 0, or 3 if a thread does not end.
/// </summary>
static class Stress
{
    const int EndMillisMax = 30_000;
    const int HangExitCode = 3;

    static readonly (string Name, Action<Pulse> Run)[] Activities =
    {
        ("allocations", Memory.Allocate),
        ("collections", Memory.Collect),
        ("exceptions", Failure.ThrowDeep),
        ("faults", Failure.Fault),
        ("short_threads", Churn.StartThreads),
        ("dynamic_methods", Emission.MakeMethods),
        ("library_loads", Native.LoadLibraries),
        ("native_sorts", Native.SortByCallback),
        ("socket_echoes", Traffic.Echo),
        ("tasks", Churn.RunTasks),
        ("lock_handovers", Churn.Contend),
        ("collectible_loads", Collectible.LoadAndUnload),
    };

    static IEnumerable<(string Name, Action<Pulse> Run)> HostileOnes(string library)
    {
        var hostile = new Hostile(library);
        yield return ("stolen_signals", hostile.StealSignals);
        yield return ("blocked_signals", hostile.BlockSignals);
        yield return ("forks", hostile.Fork);
        yield return ("native_threads", hostile.StartThreads);
        yield return ("library_copies", hostile.LoadCopies);
    }

    static int Main(string[] words)
    {
        var arguments = new Arguments(words);
        var activities = Activities.ToList();
        if (arguments.Has("library"))
            activities.AddRange(HostileOnes(arguments.Text("library")));
        var pulses = activities.Select(activity => new Pulse(activity.Name)).ToArray();
        var threads = new List<Thread>();
        for (var i = 0; i < arguments.Int("threads", 100); i++)
        {
            var (name, run) = activities[i % activities.Count];
            var pulse = pulses[i % activities.Count];
            threads.Add(new Thread(() => run(pulse)) { Name = name });
        }
        threads.ForEach(thread => thread.Start());
        Thread.Sleep(TimeSpan.FromSeconds(arguments.Double("seconds", 10)));
        Pulse.StopAll();

        var truth = new Truth();
        var hung = threads.Where(thread => !thread.Join(EndMillisMax)).ToList();
        foreach (var thread in hung)
            Console.Error.WriteLine("the thread does not end: " + thread.Name);
        foreach (var pulse in pulses)
            truth.Add(pulse.Name, pulse.Count);
        truth.Add("held_contexts", Collectible.Held());
        truth.Add("hung", hung.Count).Add("process_cpu_ns", Kernel.ProcessUsage).Tell();
        if (hung.Count > 0)
            Environment.Exit(HangExitCode);
        return 0;
    }
}

/// <summary>Counts an activity, and tells it when to stop.</summary>
sealed class Pulse
{
    static volatile bool stopped;

    long count;

    public Pulse(string name) => Name = name;

    public string Name { get; }

    public long Count => Interlocked.Read(ref count);

    public static void StopAll() => stopped = true;

    /// <summary>To be asked before each round.</summary>
    public bool Continues => !stopped;

    public void Beat() => Interlocked.Increment(ref count);
}
