using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>
/// Short work on pool threads between waits that hold no thread, on a machine that is busy with
/// --hogs N other threads: --seconds N. Pool threads that find no work spin for a while, and so are
/// late for most of it. With --wakers N, that many pairs of threads wake each other all the time,
/// and take the processor from whoever has it.
/// </summary>
static class Pool
{
    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 8);
        var hogs = arguments.Int("hogs", 4);
        var end = Crew.WallNow() + (long)(seconds * 1e9);
        var crew = new Crew();
        for (var n = 0; n < hogs; n++)
            crew.Add("hog-" + n, truth => Hog(end));
        for (var n = 0; n < arguments.Int("wakers", 0); n++)
            Wake(crew, n, end);
        crew.Add("asker", truth => Ask(end, truth).Wait());
        crew.Run();
        new Truth().Add("threads", crew.Truths).Tell();
    }

    static async Task Ask(long end, Truth truth)
    {
        long wall = 0, times = 0;
        while (Crew.WallNow() < end)
        {
            await Task.Delay(50).ConfigureAwait(false);
            var begin = Crew.WallNow();
            Burn();
            wall += Crew.WallNow() - begin;
            times++;
        }
        truth.Add("Burn_wall_ns", wall).Add("times", times);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Burn()
    {
        for (var n = 0; n < 40; n++)
            Work.Multiply(20_000);
    }

    static void Wake(Crew crew, int number, long end)
    {
        var turns = new[] { new AutoResetEvent(true), new AutoResetEvent(false) };
        for (var n = 0; n < 2; n++)
        {
            var (own, other) = (turns[n], turns[1 - n]);
            crew.Add($"waker-{number}-{n}", truth =>
            {
                while (Crew.WallNow() < end)
                {
                    own.WaitOne();
                    Work.Multiply(2_000);
                    other.Set();
                }
                other.Set();
            });
        }
    }

    static void Hog(long end)
    {
        while (Crew.WallNow() < end)
            Work.Multiply(20_000);
    }
}
