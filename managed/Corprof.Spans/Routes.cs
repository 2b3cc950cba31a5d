using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;

namespace Corprof.Spans;

/// <summary>The endpoints' names: method and route, as <c>GET /order/{id}</c>.</summary>
static class Routes
{
    // Others count as one: the name comes from outside, and there are only so many numbers.
    static readonly string[] Methods =
    {
        "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "HTTP",
    };

    static readonly ConditionalWeakTable<object, Route> Known = new();
    static Accessors? accessors;

    /// <summary>The number of a name before the route is known: the method alone.</summary>
    public static uint Unrouted(object? http) => Endpoints.Number(Methods[MethodOf(http)]);

    /// <summary>The number of a request's name by its route; 0 if it has none.</summary>
    public static uint Number(object http)
    {
        var endpoint = AccessorsOf(http).Endpoint?.Invoke(http);
        if (endpoint == null)
            return 0;
        // Weak, since programs that change their routes throw the old endpoints away.
        var route = Known.GetValue(endpoint, Route.Of);
        // Asked for anew: a middleware may have given it another meanwhile, from a header.
        return route.Number(MethodOf(http));
    }

    /// <summary>Whether a name is a method and nothing else.</summary>
    public static bool IsMethod(string? name) => Array.IndexOf(Methods, name) >= 0;

    static int MethodOf(object? http)
    {
        var request = http == null ? null : AccessorsOf(http).Request?.Invoke(http);
        var method = request == null ? null : AccessorsOf(http).Method?.Invoke(request) as string;
        var index = Array.IndexOf(Methods, method);
        return index < 0 ? Methods.Length - 1 : index;
    }

    static Accessors AccessorsOf(object http) => accessors ??= new Accessors(http.GetType());

    /// <summary>What is asked of an HttpContext.</summary>
    sealed class Accessors
    {
        public readonly Func<object, object?>? Endpoint;
        public readonly Func<object, object?>? Request;
        public readonly Func<object, object?>? Method;

        public Accessors(Type type)
        {
            while (type.FullName != "Microsoft.AspNetCore.Http.HttpContext")
            {
                if (type.BaseType == null)
                    return;
                type = type.BaseType;
            }
            var extensions =
                type.Assembly.GetType("Microsoft.AspNetCore.Http.EndpointHttpContextExtensions");
            Endpoint = Late.Static(extensions, "GetEndpoint", type);
            Request = Late.Property(type, "Request");
            var request = type.Assembly.GetType("Microsoft.AspNetCore.Http.HttpRequest");
            Method = request == null ? null : Late.Property(request, "Method");
        }
    }

    /// <summary>An endpoint's route, with the number of its name for each method.</summary>
    sealed class Route
    {
        readonly string pattern;
        readonly uint[] numbers = new uint[Methods.Length];

        Route(string pattern) => this.pattern = pattern;

        /// <summary>The route of an endpoint; its name for people if it has none.</summary>
        public static Route Of(object endpoint)
        {
            var pattern = Property(endpoint, "RoutePattern");
            var text = Property(pattern, "RawText") as string;
            if (text == null)
                return new Route(Property(endpoint, "DisplayName") as string ?? "");
            var values = Property(pattern, "RequiredValues");
            foreach (var (name, value) in values as IEnumerable<KeyValuePair<string, object?>>
                ?? Array.Empty<KeyValuePair<string, object?>>())
            {
                if (value is string { Length: > 0 } filled)
                    text = Fill(text, name, filled);
            }
            return new Route(text.StartsWith('/') ? text : "/" + text);
        }

        public uint Number(int method)
        {
            // A race only asks twice.
            if (numbers[method] == 0 && pattern.Length > 0)
                numbers[method] = Endpoints.Number(Methods[method] + " " + pattern);
            return numbers[method];
        }

        /// <summary>
        /// One pattern of MVC, as <c>{controller=Home}/{action=Index}</c>, has an endpoint for each
        /// of the program's actions; with their names in it they can be told apart.
        /// </summary>
        static string Fill(string text, string name, string value)
        {
            for (var start = 0; (start = text.IndexOf("{" + name, start)) >= 0; start++)
            {
                var end = text.IndexOf('}', start);
                var after = start + 1 + name.Length;
                if (end >= after && text[after] is '}' or '=' or '?' or ':')
                    return text.Substring(0, start) + value + text.Substring(end + 1);
            }
            return text;
        }

        static object? Property(object? owner, string name) =>
            owner?.GetType().GetProperty(name)?.GetValue(owner);
    }
}
