using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Text;

namespace Corprof.TestApps;

/// <summary>Threads with CPU work of several kinds: --threads N, --seconds N.</summary>
static class Busy
{
    const int Keys = 1_000;

    static readonly (string Name, Func<double, object> Round)[] Kinds =
    {
        ("integers", Integers),
        ("square-roots", SquareRoots),
        ("dictionary", Dictionary),
        ("strings", Strings),
    };

    static void Main(string[] words)
    {
        var before = Kernel.ProcessUsage;
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 5);
        var crew = new Crew();
        for (var i = 0; i < arguments.Int("threads", 4); i++)
        {
            var (name, round) = Kinds[i % Kinds.Length];
            crew.Add(name + "-" + i, truth => truth.Add("rounds", Repeat(round, seconds)));
        }
        crew.Run();
        var truth = new Truth().Add("threads", crew.Truths);
        truth.Add("process_cpu_begin_ns", before).Add("process_cpu_end_ns", Kernel.ProcessUsage);
        truth.Tell();
    }

    static long Repeat(Func<double, object> round, double seconds)
    {
        var watch = Stopwatch.StartNew();
        long rounds = 0;
        while (watch.Elapsed.TotalSeconds < seconds)
        {
            round(rounds);
            rounds++;
        }
        return rounds;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static object Integers(double seed) => Work.Multiply(500_000 + (int)seed % 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static object SquareRoots(double seed)
    {
        var sum = seed;
        for (var i = 0; i < 100_000; i++)
            sum += Math.Sqrt(sum + i);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static object Dictionary(double seed)
    {
        var counts = new Dictionary<int, int>();
        var key = (int)seed;
        for (var i = 0; i < 20_000; i++)
        {
            key = (key * 31 + i) & 0x7fffffff;
            counts.TryGetValue(key % Keys, out var count);
            counts[key % Keys] = count + 1;
        }
        return counts;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static object Strings(double seed)
    {
        var text = new StringBuilder();
        for (var i = 0; i < 5_000; i++)
            text.Append("item ").Append(i).Append(' ').Append(new string('x', i % 50));
        return text.ToString();
    }
}
