using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>Threads that come and go, tasks, and locks that are fought for.</summary>
static class Churn
{
    // Eleven of a hundred threads do this: on two busy cores some hundred new threads a second.
    const int PauseMillis = 20;

    static readonly object Gate = new();

    public static void StartThreads(Pulse pulse)
    {
        while (pulse.Continues)
        {
            var thread = new Thread(() => Work.Multiply(50_000)) { Name = "short-lived" };
            thread.Start();
            thread.Join();
            pulse.Beat();
            Thread.Sleep(PauseMillis);
        }
    }

    public static void RunTasks(Pulse pulse)
    {
        while (pulse.Continues)
        {
            var tasks = Enumerable.Range(0, 8).Select(n => Chain(n)).ToArray();
            Task.WaitAll(tasks);
            pulse.Beat();
        }
    }

    static async Task<long> Chain(int depth)
    {
        await Task.Yield();
        var below = depth > 0 ? await Chain(depth - 1) : 0;
        return below + await Task.Run(() => Work.Multiply(1_000));
    }

    public static void Contend(Pulse pulse)
    {
        while (pulse.Continues)
        {
            lock (Gate)
                Work.Multiply(10_000);
            pulse.Beat();
            Thread.Sleep(1);
        }
    }
}
