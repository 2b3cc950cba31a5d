using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>One worker and nothing else, 20 ms at work and 20 ms asleep: --seconds N.</summary>
static class Single
{
    const int TurnMillis = 20;

    static void Main(string[] words)
    {
        var seconds = new Arguments(words).Double("seconds", 5);
        var crew = new Crew();
        crew.Add("worker", truth => Alternate(seconds, truth));
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Alternate(double seconds, Truth truth)
    {
        long working = 0, sleeping = 0;
        var end = Crew.WallNow() + (long)(seconds * 1e9);
        while (Crew.WallNow() < end)
        {
            var begin = Crew.WallNow();
            ComputeHere(begin + TurnMillis * 1_000_000);
            var middle = Crew.WallNow();
            SleepHere();
            working += middle - begin;
            sleeping += Crew.WallNow() - middle;
        }
        truth.Add("ComputeHere_wall_ns", working).Add("SleepHere_wall_ns", sleeping);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ComputeHere(long end)
    {
        while (Crew.WallNow() < end)
            Work.Multiply(20_000);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void SleepHere()
    {
        Thread.Sleep(TurnMillis);
        KeepFrame();
    }

    /// <summary>Comes after a wait, which as a tail call would leave no frame.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void KeepFrame()
    {
    }
}
