using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// One thread divides its CPU time: --share PERCENT of A, --seconds N. In slices of half to one
/// and a half milliseconds, as chance will have it; with --in-step in periods of ten milliseconds
/// of the thread's CPU time, by its clock, first A and then B. It goes on until it has used
/// --cpu-seconds N, too, however busy the machine, and with --until FILE until that file is there.
/// With --lost FOLDER it works in that folder, and removes it. With --become USER the process is
/// that user's after two seconds.
/// </summary>
/// <remarks>
/// Slices of one length would be in step with the kernel's tick on some machines, and a
/// timer on a CPU clock can only expire at a tick. In step with the CPU clock, the thread pauses
/// for a random time after each period, so that the ticks come anywhere.
/// </remarks>
static unsafe class Split
{
    // The shortest and the longest slice: about half and one and a half milliseconds, so that the
    // two reads of the clock around it do not count.
    const int RoundsMin = 400_000;
    const int RoundsMax = 1_200_000;

    const long PeriodNanos = 10_000_000;
    const int InStepRounds = 20_000;
    const int PauseMicrosMax = 8_000;

    static readonly Random Chance = new(7);

    [DllImport("libc", EntryPoint = "usleep")]
    static extern int Pause(uint micros);

    [DllImport("libc", EntryPoint = "setuid")]
    static extern int SetUser(uint user);

    // Whether the file has come, or none is waited for.
    static volatile bool isTime = true;

    static long cpuInA;
    static long cpuInB;
    static long sink;

    static void Main(string[] words)
    {
        var arguments = new Arguments(words);
        var share = arguments.Double("share", 50) / 100;
        var seconds = arguments.Double("seconds", 5);
        var cpuSeconds = arguments.Double("cpu-seconds", 0);
        var truth = new Truth();
        var inStep = arguments.Has("in-step");
        if (arguments.Has("lost"))
        {
            var folder = arguments.Text("lost");
            Directory.CreateDirectory(folder);
            Directory.SetCurrentDirectory(folder);
            Directory.Delete(folder);
        }
        var until = arguments.Has("until") ? arguments.Text("until") : "";
        isTime = until.Length == 0;
        void Run() => Live(share, seconds, cpuSeconds, inStep, truth);
        var worker = new Thread(Run) { Name = "splitter" };
        worker.Start();
        if (arguments.Has("become"))
        {
            Thread.Sleep(2000);
            truth.Add("became", SetUser((uint)arguments.Int("become", 0)));
        }
        if (until.Length > 0)
        {
            while (!File.Exists(until))
                Thread.Sleep(100);
            isTime = true;
        }
        worker.Join();
        truth.Tell();
    }

    static void Live(double share, double seconds, double cpuSeconds, bool inStep, Truth truth)
    {
        var begin = Kernel.ThreadCpu;
        var watch = Stopwatch.StartNew();
        bool IsEarly() =>
            !isTime
            || watch.Elapsed.TotalSeconds < seconds
            || Kernel.ThreadCpu - begin < cpuSeconds * 1e9;
        while (IsEarly())
        {
            if (inStep)
                Repeat(share);
            else
                Alternate(share, Chance.Next(RoundsMin, RoundsMax));
        }
        truth.Add("tid", Kernel.ThreadId)
            .Add("cpu_a_ns", cpuInA)
            .Add("cpu_b_ns", cpuInB)
            .Add("thread_cpu_ns", Kernel.ThreadCpu - begin);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Alternate(double share, int rounds)
    {
        var before = Kernel.SliceClock;
        // The method that is behind its share has the turn.
        if (cpuInA <= share * (cpuInA + cpuInB))
        {
            MethodA(rounds);
            cpuInA += Kernel.SliceClock - before;
        }
        else
        {
            MethodB(rounds);
            cpuInB += Kernel.SliceClock - before;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Repeat(double share)
    {
        var begin = Kernel.ThreadCpu;
        var start = begin - begin % PeriodNanos;
        var middle = start + (long)(share * PeriodNanos);
        while (Kernel.ThreadCpu < middle)
            MethodA(InStepRounds);
        var changed = Kernel.ThreadCpu;
        while (Kernel.ThreadCpu < start + PeriodNanos)
            MethodB(InStepRounds);
        cpuInA += changed - begin;
        cpuInB += Kernel.ThreadCpu - changed;
        Pause((uint)Chance.Next(PauseMicrosMax));
    }

    // Each with a loop of its own: were it in a common method, that one would have the samples.
    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void MethodA(int rounds)
    {
        long x = 1;
        for (var i = 0; i < rounds; i++)
            x = x * 31 + i;
        sink += x;
    }

    [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
    static void MethodB(int rounds)
    {
        long x = 7;
        for (var i = 0; i < rounds; i++)
            x = x * 37 - i;
        sink -= x;
    }
}
