using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace Corprof.Spans;

/// <summary>
/// HTTP requests, as ASP.NET Core tells of them: their routes, and those that have no activity. Of
/// its events only these are asked for, since others would make it create activities.
/// </summary>
sealed class HttpRequests : IObserver<KeyValuePair<string, object?>>
{
    const string Listener = "Microsoft.AspNetCore";
    const string Begin = "Microsoft.AspNetCore.Hosting.BeginRequest";
    const string Matched = "Microsoft.AspNetCore.Routing.EndpointMatched";
    const string End = "Microsoft.AspNetCore.Hosting.EndRequest";

    // Comes instead of the end if the request's code threw.
    const string Failed = "Microsoft.AspNetCore.Hosting.UnhandledException";

    Func<object, object?>? contextOf;
    Type? payload;

    /// <summary>Begins to follow all servers of the process, also those yet to come.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Follow() => DiagnosticListener.AllListeners.Subscribe(new Listeners());

    /// <inheritdoc/>
    public void OnNext(KeyValuePair<string, object?> told)
    {
        // The caller is the server itself: nothing of ours may end its work.
        try
        {
            if (told.Value == null)
                return;
            switch (told.Key)
            {
                case Begin:
                    OnBegin(ContextOf(told.Value));
                    break;
                case Matched:
                    OnMatched(told.Value);
                    break;
                case End:
                case Failed:
                    OnEnd();
                    break;
            }
        }
        catch (Exception)
        {
            // The request has no name, or no end; the rest of the profile is as good as ever.
        }
    }

    /// <inheritdoc/>
    public void OnCompleted()
    {
    }

    /// <inheritdoc/>
    public void OnError(Exception error)
    {
    }

    static bool IsWanted(string name) =>
        name is Begin or Matched or End or Failed;

    /// <summary>The payload is of a class of the server's own, with this property.</summary>
    object? ContextOf(object value)
    {
        var type = value.GetType();
        if (payload != type)
        {
            contextOf = Late.Property(type, "httpContext");
            payload = type;
        }
        return contextOf?.Invoke(value);
    }

    static void OnBegin(object? http)
    {
        var from = Flow.Current;
        var request = from?.Request;
        var isServers = request is { IsHttp: false, Activity: Activity root }
            && Activities.IsHosting(root);
        if (!isServers)
        {
            // Nobody traces it, or only the connection.
            var own = SpanIds.Random();
            var span = from is { Activity: not null } ? from.Span : own;
            request = new Request(own.Number, null, from);
            Flow.Current = Context.Enter(from, span, request, from?.Activity);
        }
        request!.IsHttp = true;
        request.Name(Routes.Unrouted(http));
    }

    static void OnMatched(object http)
    {
        if (Current() is { HasRoute: false } request)
            request.NameRoute(Routes.Number(http));
    }

    static void OnEnd()
    {
        // With an activity it ends a moment later, together with that.
        if (Current() is not { Activity: null } request)
            return;
        request.End(request.ElapsedNanos);
        Flow.Current = request.Outer;
    }

    /// <summary>The HTTP request that the flow works for, whatever it does besides.</summary>
    static Request? Current()
    {
        for (var context = Flow.Current; context != null; context = context.Outer)
        {
            if (context.Request is { IsHttp: true } request)
                return request;
        }
        return null;
    }

    /// <summary>Waits for servers.</summary>
    sealed class Listeners : IObserver<DiagnosticListener>
    {
        public void OnNext(DiagnosticListener listener)
        {
            if (listener.Name == Listener)
                listener.Subscribe(new HttpRequests(), IsWanted);
        }

        public void OnCompleted()
        {
        }

        public void OnError(Exception error)
        {
        }
    }
}
