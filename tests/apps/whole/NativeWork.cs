using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>Threads of a native library that compute: burn.c.</summary>
static unsafe class NativeWork
{
    /// <summary>
    /// One thread for so many seconds of CPU time, and beside it as many short ones after each
    /// other, of a few milliseconds each.
    /// </summary>
    public static void Burn(string path, double seconds, int shortThreads, Truth truth)
    {
        var library = NativeLibrary.Load(path);
        var burn = (delegate* unmanaged<double, int, long*, void>)
            NativeLibrary.GetExport(library, "burn");
        var answer = stackalloc long[3];
        burn(seconds, shortThreads, answer);
        truth.Add("native_tid", answer[0]).Add("native_cpu_ns", answer[1]);
        truth.Add("short_cpu_ns", answer[2]);
    }
}
