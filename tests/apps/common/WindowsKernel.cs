using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>The same from Windows.</summary>
static unsafe partial class Kernel
{
    const long NanosPerStep = 100;

    static readonly bool IsWindows = RuntimeInformation.IsOSPlatform(OSPlatform.Windows);

    [DllImport("kernel32", EntryPoint = "GetCurrentThreadId")]
    static extern int WindowsThreadId();

    [DllImport("kernel32")]
    static extern nint GetCurrentThread();

    [DllImport("kernel32")]
    static extern nint GetCurrentProcess();

    [DllImport("kernel32")]
    static extern int GetThreadTimes(
        nint thread, out long created, out long ended, out long kernel, out long user);

    [DllImport("kernel32")]
    static extern int GetProcessTimes(
        nint process, out long created, out long ended, out long kernel, out long user);

    static long WindowsThreadCpu()
    {
        GetThreadTimes(GetCurrentThread(), out _, out _, out var kernel, out var user);
        return (kernel + user) * NanosPerStep;
    }

    static long WindowsProcessCpu()
    {
        GetProcessTimes(GetCurrentProcess(), out _, out _, out var kernel, out var user);
        return (kernel + user) * NanosPerStep;
    }
}
