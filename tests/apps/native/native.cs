using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// One thread divides its CPU time between a C++ function and managed code: --library FILE,
/// --share PERCENT of the former, --seconds N.
/// </summary>
static class Native
{
    // The shortest and the longest slice: about half and one and a half milliseconds.
    const int RoundsMin = 400_000;
    const int RoundsMax = 1_200_000;

    static readonly Random Chance = new(11);

    [DllImport("shop", EntryPoint = "shop_price")]
    static extern long Price(int rounds);

    static long nativeNanos;
    static long managedNanos;
    static long sink;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var library = NativeLibrary.Load(arguments.Text("library"));
        NativeLibrary.SetDllImportResolver(typeof(Native).Assembly,
            (name, _, _) => name == "shop" ? library : IntPtr.Zero);
        var share = arguments.Double("share", 50) / 100;
        var seconds = arguments.Double("seconds", 5);
        var truth = new Truth();
        var worker = new Thread(() => Live(share, seconds, truth)) { Name = "shopper" };
        worker.Start();
        worker.Join();
        truth.Tell();
    }

    static void Live(double share, double seconds, Truth truth)
    {
        var watch = Stopwatch.StartNew();
        while (watch.Elapsed.TotalSeconds < seconds)
        {
            var rounds = Chance.Next(RoundsMin, RoundsMax);
            var before = Kernel.ThreadCpu;
            if (nativeNanos <= share * (nativeNanos + managedNanos))
            {
                sink += Price(rounds);
                nativeNanos += Kernel.ThreadCpu - before;
            }
            else
            {
                Managed(rounds);
                managedNanos += Kernel.ThreadCpu - before;
            }
        }
        truth.Add("tid", Kernel.ThreadId)
            .Add("cpu_native_ns", nativeNanos)
            .Add("cpu_managed_ns", managedNanos);
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void Managed(int rounds)
    {
        long x = 7;
        for (var i = 0; i < rounds; i++)
            x = x * 37 - i;
        sink -= x;
    }
}
