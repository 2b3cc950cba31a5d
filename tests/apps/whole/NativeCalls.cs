using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>Calls to a native library that calls back: calls.c.</summary>
sealed unsafe class NativeCalls
{
    // A tenth of a millisecond, about: of what is measured, the measuring is a hundredth.
    const int Rounds = 50_000;

    [ThreadStatic]
    static long managed;

    readonly delegate* unmanaged<delegate* unmanaged<long, long>, long, long> outer;
    readonly delegate* unmanaged<delegate* unmanaged<long, long>, double, long*, void> onThread;
    long nativeNs;
    long managedNs;

    public NativeCalls(string path)
    {
        var library = NativeLibrary.Load(path);
        outer = (delegate* unmanaged<delegate* unmanaged<long, long>, long, long>)
            NativeLibrary.GetExport(library, "calls_outer");
        onThread = (delegate* unmanaged<delegate* unmanaged<long, long>, double, long*, void>)
            NativeLibrary.GetExport(library, "calls_on_a_thread");
    }

    /// <summary>From managed code through native code to managed code, over and over.</summary>
    public void Call(Func<bool> continues)
    {
        managed = 0;
        long all = 0;
        while (continues())
            all += Out();
        Interlocked.Add(ref managedNs, managed);
        Interlocked.Add(ref nativeNs, all - managed);
    }

    /// <summary>Called on a thread that the library has made.</summary>
    public void CallOnThread(double seconds, Truth truth)
    {
        var answer = stackalloc long[2];
        onThread(&Back, seconds, answer);
        truth.Add("native_tid", answer[0]).Add("native_cpu_ns", answer[1]);
    }

    public void Tell(Truth truth) =>
        truth.Add("called_native_ns", nativeNs).Add("called_back_ns", managedNs);

    [MethodImpl(MethodImplOptions.NoInlining)]
    long Out()
    {
        var begin = Kernel.ThreadCpu;
        outer(&Back, Rounds);
        return Kernel.ThreadCpu - begin;
    }

    [UnmanagedCallersOnly]
    static long Back(long rounds)
    {
        var begin = Kernel.ThreadCpu;
        var result = Work.Multiply((int)rounds);
        managed += Kernel.ThreadCpu - begin;
        return result;
    }
}
