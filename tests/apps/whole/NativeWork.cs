using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>Threads of a native library that compute: burn.c.</summary>
static unsafe class NativeWork
{
    /// <summary>
    /// "burn": one thread for so many seconds of CPU time, and beside it as many short ones after
    /// each other, of a few milliseconds each. "idle": so many threads that sleep.
    /// </summary>
    public static void Run(string path, string function, double seconds, int threads, Truth truth)
    {
        var library = NativeLibrary.Load(path);
        var run = (delegate* unmanaged<double, int, long*, void>)
            NativeLibrary.GetExport(library, function);
        var answer = stackalloc long[3];
        run(seconds, threads, answer);
        truth.Add("native_tid", answer[0]).Add("native_cpu_ns", answer[1]);
        truth.Add("short_cpu_ns", answer[2]);
    }
}
