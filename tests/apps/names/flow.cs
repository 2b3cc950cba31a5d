// Control flow, and code that only exists at run time.

namespace Corprof.TestApps.Names;

static unsafe class Flow
{
    public static void Run()
    {
        Case("finally block"); Finally();
        Case("catch block"); Catch();
        Case("exception filter"); Filter();
        Case("using declaration's Dispose"); Using();
        Case("pattern Dispose of a ref struct"); PatternDispose();
        Case("switch expression"); Switch(2);
        Case("lock statement"); Lock();
        Case("stackalloc"); Stack(8);
        Case("Unsafe and fixed"); Fixed([1, 2]);
        Case("pattern matching"); Pattern("x");
        Case("loop, replaced on the stack while it runs"); Loop(60_000);
        Case("called through a function pointer"); delegate*<int, void> f = &Pointed; f(1);
        Case("called from native code"); delegate* unmanaged<int, void> g = &FromNative; g(1);
        Case("called by reflection"); typeof(Flow).GetMethod("Reflected", BindingFlags.NonPublic | BindingFlags.Static)!.Invoke(null, [1]);
        Case("dynamic call site"); dynamic target = new Dynamically(); target.Call(1);
        Case("collection expression"); Collection([1, 2, 3]);
    }

    static int Throw() => throw new InvalidOperationException();
    [MethodImpl(No)] static void Finally() { try { Total++; } finally { Total += Burn(Ms); } }
    [MethodImpl(No)] static void Catch() { try { Throw(); } catch (InvalidOperationException) { Total += Burn(Ms); } }
    [MethodImpl(No)] static void Filter() { try { Throw(); } catch (Exception) when (Burn(Ms) > 0) { Total++; } }
    [MethodImpl(No)] static void Using() { using var resource = new Resource(); Total++; }
    [MethodImpl(No)] static void PatternDispose() { using var resource = new StackResource(); Total++; }
    [MethodImpl(No)] static void Switch(int x) => Total += x switch { 1 => 1, 2 => Burn(Ms), _ => 0 };
    [MethodImpl(No)] static void Lock() { lock (typeof(Flow)) Total += Burn(Ms); }
    [MethodImpl(No)] static void Stack(int size) { Span<byte> bytes = stackalloc byte[size]; Total += Burn(Ms) + bytes[0]; }
    [MethodImpl(No)] static void Fixed(int[] values)
    {
        fixed (int* first = values) Unsafe.Add(ref *first, 1) = 1;
        Total += Burn(Ms);
    }
    [MethodImpl(No)] static void Pattern(object value) { if (value is string { Length: > 0 } text) Total += Burn(Ms) + text.Length; }
    [MethodImpl(No)] static void Loop(int times) { for (int i = 0; i < times; i++) if (i == times - 1) Total += Burn(Ms); }
    [MethodImpl(No)] static void Pointed(int x) => Total += Burn(Ms) + x;
    [UnmanagedCallersOnly] static void FromNative(int x) => Total += Burn(Ms) + x;
    [MethodImpl(No)] static void Reflected(int x) => Total += Burn(Ms) + x;
    [MethodImpl(No)] static void Collection(ReadOnlySpan<int> values) => Total += Burn(Ms) + values.Length;
}

class Resource : IDisposable { [MethodImpl(No)] public void Dispose() => Total += Burn(Ms); }
ref struct StackResource { [MethodImpl(No)] public void Dispose() => Total += Burn(Ms); }
public class Dynamically { [MethodImpl(No)] public void Call(int x) => Total += Burn(Ms) + x; }

static class RunTime
{
    static readonly MethodInfo burn = typeof(Work).GetMethod(nameof(Burn))!;

    public static void Run()
    {
        Case("DynamicMethod"); Emitted();
        Case("DynamicMethod without parameters"); EmittedPlain();
        Case("compiled expression tree with a name"); Named();
        Case("compiled expression tree"); Unnamed();
        Case("type built at run time"); Built();
    }

    /// <summary>Calls Burn, then adds one, which keeps the call from being a tail call.</summary>
    static void EmitBurn(ILGenerator il)
    {
        il.Emit(OpCodes.Ldc_I4, Ms);
        il.Emit(OpCodes.Call, burn);
        il.Emit(OpCodes.Ldc_I4_1);
        il.Emit(OpCodes.Conv_I8);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Ret);
    }

    static void Emitted()
    {
        var method = new DynamicMethod("MyLambda", typeof(long), [typeof(int), typeof(int[])], typeof(RunTime).Module);
        EmitBurn(method.GetILGenerator());
        Total += method.CreateDelegate<Func<int, int[], long>>()(1, [2]);
    }

    static void EmittedPlain()
    {
        var method = new DynamicMethod("Plain", typeof(long), [], typeof(RunTime).Module);
        EmitBurn(method.GetILGenerator());
        Total += method.CreateDelegate<Func<long>>()();
    }

    static Expression Body() => Expression.Add(Expression.Call(burn, Expression.Constant(Ms)), Expression.Constant(1L));

    static void Named()
    {
        var x = Expression.Parameter(typeof(int), "x");
        Total += Expression.Lambda<Func<int, long>>(Body(), "PriceRule", [x]).Compile()(1);
    }

    static void Unnamed() => Total += Expression.Lambda<Func<long>>(Body()).Compile()();

    static void Built()
    {
        var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("BuiltAtRunTime"), AssemblyBuilderAccess.Run);
        var type = assembly.DefineDynamicModule("Main").DefineType("Built.Rules", TypeAttributes.Public);
        var method = type.DefineMethod("Apply", MethodAttributes.Public | MethodAttributes.Static, typeof(long), [typeof(int)]);
        EmitBurn(method.GetILGenerator());
        Total += type.CreateType().GetMethod("Apply")!.CreateDelegate<Func<int, long>>()(1);
    }
}
