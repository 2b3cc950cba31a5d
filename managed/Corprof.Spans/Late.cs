using System;
using System.Reflection;

namespace Corprof.Spans;

/// <summary>
/// Members that are found while the program runs: of ASP.NET Core, which is not referred to, and of
/// versions later than the one that this is compiled against. A call costs as much as a delegate's.
/// </summary>
static class Late
{
    /// <summary>A method as a delegate of that type, whose first argument is the object.</summary>
    public static T Open<T>(MethodInfo method) where T : Delegate =>
        (T)method.CreateDelegate(typeof(T));

    /// <summary>A property of a class, for any object of it; null if there is none.</summary>
    public static Func<object, object?>? Property(Type type, string name)
    {
        var get = type.GetProperty(name)?.GetGetMethod();
        return get == null ? null : Function(get, type, get.ReturnType);
    }

    /// <summary>A static function with one argument; null if there is none.</summary>
    public static Func<object, object?>? Static(Type? type, string name, Type argument)
    {
        var method = type?.GetMethod(name, new[] { argument });
        return method == null ? null : Function(method, argument, method.ReturnType);
    }

    /// <summary>A private generic function of ours, made for a type.</summary>
    public static MethodInfo Generic(Type owner, string name, params Type[] types)
    {
        var method = owner.GetMethod(name, BindingFlags.NonPublic | BindingFlags.Static);
        return method!.MakeGenericMethod(types);
    }

    static Func<object, object?>? Function(MethodInfo method, Type argument, Type result)
    {
        var bind = Generic(typeof(Late), nameof(Bind), argument, result);
        return (Func<object, object?>?)bind.Invoke(null, new object[] { method });
    }

    static Func<object, object?> Bind<TArgument, TResult>(MethodInfo method)
    {
        var call = (Func<TArgument, TResult>)method.CreateDelegate(
            typeof(Func<TArgument, TResult>));
        return argument => call((TArgument)argument);
    }
}
