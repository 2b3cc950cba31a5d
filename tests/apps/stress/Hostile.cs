using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>A native library (chaos.c) that does what a profiler could stumble over.</summary>
sealed unsafe class Hostile
{
    const int Fault = 11;
    const int Profiling = 27;
    const int StealMicros = 2_000;
    const long Rounds = 500_000;
    const int Copies = 4;

    readonly string path;
    readonly delegate* unmanaged<int, int, int, void> steal;
    readonly delegate* unmanaged<long, void> block;
    readonly delegate* unmanaged<byte*, int> fork;
    readonly delegate* unmanaged<int, long, void> threads;

    public Hostile(string path)
    {
        this.path = path;
        var library = NativeLibrary.Load(path);
        nint Function(string name) => NativeLibrary.GetExport(library, name);
        steal = (delegate* unmanaged<int, int, int, void>)Function("chaos_steal");
        block = (delegate* unmanaged<long, void>)Function("chaos_block");
        fork = (delegate* unmanaged<byte*, int>)Function("chaos_fork");
        threads = (delegate* unmanaged<int, long, void>)Function("chaos_threads");
    }

    /// <summary>Takes signals and gives them back: ours, and that of null references.</summary>
    public void StealSignals(Pulse pulse)
    {
        while (pulse.Continues)
        {
            steal(Profiling, 0, StealMicros);
            steal(Profiling, 1, StealMicros);
            steal(Fault, 1, StealMicros);
            pulse.Beat();
            Thread.Sleep(100);
        }
    }

    public void BlockSignals(Pulse pulse)
    {
        while (pulse.Continues)
        {
            block(Rounds);
            pulse.Beat();
            Thread.Sleep(1);
        }
    }

    /// <summary>Children that run the process's own code, and such that become programs.</summary>
    public void Fork(Pulse pulse)
    {
        var program = "/bin/true\0"u8;
        while (pulse.Continues)
        {
            fixed (byte* text = program)
            {
                if (fork(null) != 0 || fork(text) != 0)
                    throw new InvalidOperationException("a child failed");
            }
            using var child = Process.Start("/bin/true");
            child.WaitForExit();
            if (child.ExitCode != 0)
                throw new InvalidOperationException("a child ended with " + child.ExitCode);
            pulse.Beat();
            Thread.Sleep(50);
        }
    }

    public void StartThreads(Pulse pulse)
    {
        while (pulse.Continues)
        {
            threads(4, Rounds);
            pulse.Beat();
            Thread.Sleep(20);
        }
    }

    /// <summary>Copies of the library, each mapped, run and unmapped, over and over.</summary>
    public void LoadCopies(Pulse pulse)
    {
        var copies = new string[Copies];
        for (var i = 0; i < Copies; i++)
        {
            copies[i] = $"{path}.{Environment.ProcessId}.{Environment.CurrentManagedThreadId}.{i}";
            File.Copy(path, copies[i], overwrite: true);
        }
        while (pulse.Continues)
        {
            foreach (var copy in copies)
            {
                var library = NativeLibrary.Load(copy);
                ((delegate* unmanaged<long, long>)NativeLibrary.GetExport(library, "chaos_burn"))(
                    Rounds);
                NativeLibrary.Free(library);
                pulse.Beat();
            }
        }
        foreach (var copy in copies)
            File.Delete(copy);
    }
}
