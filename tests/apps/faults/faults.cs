using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// A null reference and a division by zero after the other, each of which the processor raises and
/// the runtime's own signal handlers turn into an exception: --seconds N, --threads N.
/// A profiler's signal that comes within such a handler needs room on its stack.
/// </summary>
static class Faults
{
    static long caught;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 5);
        var threads = new Thread[arguments.Int("threads", 2)];
        var truth = new Truth();
        for (var i = 0; i < threads.Length; i++)
        {
            threads[i] = new Thread(() => Raise(seconds)) { Name = "faults" };
            threads[i].Start();
        }
        foreach (var thread in threads)
            thread.Join();
        truth.Add("caught", caught);
        truth.Tell();
    }

    static void Raise(double seconds)
    {
        var watch = Stopwatch.StartNew();
        while (watch.Elapsed.TotalSeconds < seconds)
        {
            try
            {
                Length(null);
            }
            catch (NullReferenceException)
            {
                Interlocked.Increment(ref caught);
            }
            try
            {
                Divide(1, 0);
            }
            catch (DivideByZeroException)
            {
                Interlocked.Increment(ref caught);
            }
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Length(string text) => text.Length;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Divide(int a, int b) => a / b;
}
