using System;
using System.Reflection.Emit;

namespace Corprof.TestApps;

/// <summary>Methods made at run time, called, and left to the garbage collector.</summary>
static class Emission
{
    const int Calls = 50;

    public static void MakeMethods(Pulse pulse)
    {
        for (var n = 0; pulse.Continues; n++)
        {
            var add = Make(n);
            var sum = 0;
            for (var i = 0; i < Calls; i++)
                sum = add(sum);
            if (sum != unchecked(n * Calls))
                throw new InvalidOperationException("a dynamic method computed " + sum);
            pulse.Beat();
        }
    }

    /// <summary>A method that adds a constant.</summary>
    static Func<int, int> Make(int constant)
    {
        var method = new DynamicMethod("Add", typeof(int), new[] { typeof(int) });
        var code = method.GetILGenerator();
        code.Emit(OpCodes.Ldarg_0);
        code.Emit(OpCodes.Ldc_I4, constant);
        code.Emit(OpCodes.Add);
        code.Emit(OpCodes.Ret);
        return (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
    }
}
