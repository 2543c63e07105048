// The HTTP server under all APIs: request validation, error responses, limits for slow and hostile clients.

import { randomUUID } from 'node:crypto'
import { type ServerOptions as HttpServerOptions, IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastJsonStringify, { type AnySchema } from 'fast-json-stringify'
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  LogController,
  type RawServerDefault,
} from 'fastify'
import helmet from 'helmet'
import type { Logger } from '../config/logger.ts'
import { parseRfc3339 } from '../transformers/json/times/rfc3339.ts'
import { allowOrigins } from './cross-origin.ts'
import { type CountRefusal, openErrorAnswer, stopDetail } from './error-answer.ts'
import { HttpError } from './errors.ts'
import { type Compatibility, plainAuthorization, plainUrl } from './older-clients.ts'
import type { HttpOptions } from './options.ts'
import {
  clientAddressesKey,
  clientAddressKey,
  openClientAddresses,
  openTrustedProxies,
  trustedProxiesKey,
} from './requests/client-address.ts'
import { codingOf, codingsText } from './requests/compressed-body.ts'
import { openHostCheck } from './requests/host.ts'
import { jsonParser, needsBody } from './requests/json-body.ts'
import { prepareQuery } from './requests/query-string.ts'
import { refuseConnection } from './requests/refused-connection.ts'
import { longListIn } from './requests/validation.ts'
import { type ServerTls, tlsServerOptions } from './tls-files.ts'
import { openWebSockets, webSocketsKey } from './web-sockets.ts'

/** The parameter of route plugins: `(app: HttpServer) => Promise<void>`. */
export type HttpServer = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

/** `host` is the address that the server will listen on. */
export interface ServerOptions extends Partial<Omit<HttpOptions, 'port' | 'certFile' | 'keyFile'>> {
  readonly logger: Logger
  /** Enables HTTPS; with `ca`, only clients with a certificate of that authority may connect. */
  readonly tls?: ServerTls | undefined
  readonly compatibility?: Compatibility
  readonly countRefusal?: CountRefusal
}

/**
 * A server without routes: register plugins, then `listen`. For every route:
 * - Bodies are JSON (a plugin may accept other types in its own scope) and are validated as sent: nothing is converted or removed.
 *   Query strings are converted to the schema's numbers and booleans; a repeated parameter is rejected. Defaults are filled in.
 * - Every error has the same format (error-answer.ts). Throw HttpError; any other error becomes a 500 without details.
 * - Successful requests are not logged.
 * - A body with a Content-Encoding that its route does not take (compressed-body.ts), or with a Transfer-Encoding other than chunked, is rejected before it reaches a parser.
 * - On an address of this machine alone, requests for other hosts than this machine, `host` and `hosts` are rejected (host.ts).
 * - Requests for a WebSocket are passed on where `takeWebSockets` says (web-sockets.ts), and otherwise answered as others.
 * - While the server closes, requests on open connections get 503.
 *
 * Errors are checked in this order: 401 (thrown in `onRequest`), validation, 403 (thrown in the handler).
 */
export function createServer({
  logger,
  bodyBytesMax = 1_048_576,
  requestTimeoutMs = 30_000,
  keepAliveTimeoutMs = 72_000,
  trustedProxies = [],
  host,
  hosts = [],
  allowedOrigins = [],
  tls,
  compatibility = 'none',
  countRefusal,
}: ServerOptions): HttpServer {
  let closing = false
  const answerError = openErrorAnswer(logger, () => closing, countRefusal)
  const safety = safetyHeaders()
  // Fastify's own log lines below warn repeat what the process logs itself.
  const loggerInstance: FastifyBaseLogger = logger.child({}, { level: logger.isLevelEnabled('warn') ? 'warn' : logger.level })
  const app = fastify({
    loggerInstance,
    // No child logger per request, which would be too expensive for ingest; log lines include the request's id themselves.
    childLoggerFactory: parent => parent,
    logController: new LogController({ disableRequestLogging: true }),
    requestIdHeader: false,
    genReqId: () => randomUUID(),
    bodyLimit: bodyBytesMax,
    trustProxy: false,
    return503OnClosing: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    // Slow clients are checked for every second; the headers must arrive within half of the request's time limit.
    ...protocol(tls, {
      headersTimeout: Math.ceil(requestTimeoutMs / 2),
      connectionsCheckingInterval: 1000,
      // Checked with the host, since Node.js answers without a body and without the headers of every answer.
      requireHostHeader: false,
      shouldUpgradeCallback: request => webSockets.isWanted(request),
    }),
    // As many as the longest id of a channel may have.
    routerOptions: { maxParamLength: 2048 },
    rewriteUrl: ({ method = '', url = '' }: IncomingMessage) => (compatibility === 'none' ? url : plainUrl(method, url)),
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, safety),
    // The router's own answers: no hook has run.
    frameworkErrors: (error, request, reply) => void answerError(error, request, reply.headers(safety).header('x-request-id', request.id)),
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: true,
        allErrors: true,
        verbose: true,
        keywords: ['allowed', 'optionalBody'],
      },
      // After Ajv's own formats, whose date-time has offsets without a colon.
      onCreate: ajv => void ajv.addFormat('date-time', text => parseRfc3339(text) !== undefined),
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  const addressOf = openClientAddresses(trustedProxies, logger)
  app.decorateRequest(clientAddressKey, null)
  app.decorate(clientAddressesKey, addressOf)
  const isTrustedProxy = openTrustedProxies(trustedProxies)
  app.decorate(trustedProxiesKey, isTrustedProxy)
  // Compiled at the first response: a route describes up to ten, and compiling those of errors, which are never serialized with it, would delay the start.
  app.setSerializerCompiler(({ schema }) => {
    let serialize: ((data: unknown) => string) | undefined
    return data => (serialize ??= fastJsonStringify(schema as AnySchema))(data)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonParser)

  const absent = trackRoutes(app)
  const hostFault = openHostCheck(app.server, host === undefined ? hosts : [host, ...hosts])
  const webSockets = openWebSockets({ hostFault, allowedOrigins, addressOf, isTrustedProxy, headers: safety, logger })
  app.decorate(webSocketsKey, webSockets)
  app.server.on('upgrade', webSockets.onUpgrade)
  app.addHook('preClose', async () => {
    closing = true
  })
  // Before preflights, which `allowOrigins` answers itself.
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(safety).header('x-request-id', request.id)
    done(hostFault(request.raw))
  })
  if (allowedOrigins.length > 0) allowOrigins(app, allowedOrigins)
  app.addHook('onRequest', (request, reply, done) => {
    const { headers } = request
    if (compatibility !== 'none' && headers.authorization !== undefined) headers.authorization = plainAuthorization(headers.authorization)
    if (closing) done(new HttpError('unavailable', stopDetail))
    else done(transferCodingFault(request.raw) ?? (request.is404 ? absent(request, reply) : undefined))
  })
  // After `onRequest`, so that 401 takes precedence, and before any body parser.
  app.addHook('preParsing', (request, reply, payload, done) => {
    try {
      const fault = encodedBodyFault(request)
      // RFC 9110 §15.5.16: tells this 415 from one about the content type.
      if (fault !== undefined) {
        reply.header('accept-encoding', request.routeOptions.config.takesCompressed === true ? codingsText : 'identity')
        throw fault
      }
      prepareQuery(request)
      done(null, payload)
    } catch (error) {
      done(error as Error)
    }
  })
  app.addHook('preValidation', (request, _reply, done) => {
    try {
      if (request.body === undefined && !needsBody(request)) request.body = {}
      const longList = longListIn(request.body, request.routeOptions.schema?.body ?? {})
      if (longList !== undefined) throw new HttpError('malformed_request', undefined, { faults: [longList] })
      done()
    } catch (error) {
      done(error as Error)
    }
  })
  app.setErrorHandler(answerError)
  return app
}

/** Fastify takes the options of Node.js's server under the name of the protocol. Its HTTP and HTTPS types differ, which this hides from callers. */
function protocol(tls: ServerTls | undefined, options: HttpServerOptions): { http: HttpServerOptions } {
  if (tls === undefined) return { http: options }
  // The handshake counts toward the time limit of the head: by default Node.js would wait for two minutes.
  return { https: { ...options, ...tlsServerOptions(tls), handshakeTimeout: options.headersTimeout } } as unknown as {
    http: HttpServerOptions
  }
}

/**
 * Security headers for every answer, by Helmet; names in lower case. Computed once, because they never differ: this saves 10 µs a request compared with
 * Helmet's plugin.
 */
function safetyHeaders(): Readonly<Record<string, string>> {
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  const setHeaders = helmet({
    // Answers are data and never executed. The page at /docs has its own policy.
    contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
    // Whether a whole domain uses only HTTPS is decided by the proxy that terminates TLS.
    strictTransportSecurity: false,
  })
  setHeaders(response.req, response, error => {
    if (error !== undefined) throw error
  })
  return Object.fromEntries(Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]))
}

interface Pattern {
  readonly expression: RegExp
  readonly methods: Set<string>
}

/** Records all routes added after this call. The returned function gives the error for a request without a route: 405 with the path's methods, or 404. */
function trackRoutes(app: FastifyInstance): (request: FastifyRequest, reply: FastifyReply) => HttpError {
  const patterns = new Map<string, Pattern>()
  app.addHook('onRoute', ({ url, method }) => {
    // The route of preflights matches every path, and does not make a path exist.
    if (url === '*') return
    const pattern = patterns.get(url) ?? { expression: expressionOf(url), methods: new Set() }
    patterns.set(url, pattern)
    for (const one of [method].flat()) pattern.methods.add(one.toUpperCase())
  })
  return (request, reply) => {
    const path = request.url.split('?', 1)[0]!
    const methods = new Set([...patterns.values()].filter(({ expression }) => expression.test(path)).flatMap(({ methods }) => [...methods]))
    if (methods.size === 0) return new HttpError('not_found', 'look up the paths in /openapi.json')
    const allowed = [...methods].sort().join(', ')
    reply.header('allow', allowed)
    return new HttpError('method_not_allowed', `use ${allowed}`)
  }
}

/** Converts `/things/:id/*` to a regular expression; parameters are always whole segments. */
function expressionOf(url: string): RegExp {
  const source = url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/:[^/]+/g, '[^/]+')
  return new RegExp(`^${source.replaceAll('\\*', '.*')}$`)
}

/** The error for a transfer coding before chunked: the parser takes every list that ends in `chunked`, and gives the bytes as they came (RFC 9112 §6.1). */
function transferCodingFault({ headers }: IncomingMessage): HttpError | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined || coding.trim().toLowerCase() === 'chunked') return undefined
  return new HttpError('malformed_request', 'a transfer-encoding other than chunked is not supported: send the body without it')
}

/** The error for a compressed body that the route does not decompress: its bytes would be stored compressed. */
function encodedBodyFault({ raw: { headers }, routeOptions }: FastifyRequest): HttpError | undefined {
  const coding = codingOf(headers)
  const isTaken = routeOptions.config.takesCompressed === true
  if (coding === undefined || (coding !== 'unsupported' && isTaken)) return undefined
  // Some clients send the header even without a body.
  if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') return undefined
  const detail = isTaken
    ? `this Content-Encoding is not supported: use one of ${codingsText}, or none`
    : 'a compressed body is not supported: send it without Content-Encoding'
  return new HttpError('unsupported_media_type', detail)
}
