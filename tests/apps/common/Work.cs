using System.Runtime.CompilerServices;

namespace Corprof.TestApps;

/// <summary>Plain work for the CPU.</summary>
static class Work
{
    const long NanosPerSecond = 1_000_000_000;

    /// <summary>Computes until the calling thread has spent so much CPU time.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Spin(double cpuSeconds)
    {
        var end = Kernel.ThreadCpu + (long)(cpuSeconds * NanosPerSecond);
        long result = 0;
        while (Kernel.ThreadCpu < end)
            result += Multiply(20_000);
        return result;
    }

    /// <summary>A dependent chain of multiplications: some 100,000 take 0.1 to 0.2 ms.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Multiply(int rounds)
    {
        long x = 1;
        for (var i = 0; i < rounds; i++)
            x = x * 31 + i;
        return x;
    }
}
