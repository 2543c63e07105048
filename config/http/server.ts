// The HTTP server that every interface is mounted on: checks of requests, answers of errors, limits against slow and hostile clients.

import { randomUUID } from 'node:crypto'
import type { ServerOptions as HttpServerOptions, IncomingMessage, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastJsonStringify, { type AnySchema } from 'fast-json-stringify'
import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController, type RawServerDefault } from 'fastify'
import type { Logger } from '../logger.ts'
import { trackRoutes } from './absent-route.ts'
import { clientAddressesKey, openClientAddresses, openTrustedProxies, trustedProxiesKey } from './client-address.ts'
import { allowOrigins } from './cross-origin.ts'
import { openErrorAnswer } from './error-answer.ts'
import { HttpError } from './errors.ts'
import { jsonParser, needsBody } from './json-body.ts'
import { type Compatibility, plainAuthorization, plainUrl } from './older-clients.ts'
import type { HttpOptions } from './options.ts'
import { prepareQuery } from './query-string.ts'
import { refuseConnection } from './refused-connection.ts'
import { encodedBodyFault, headFault } from './request-head.ts'
import { safetyHeaders } from './safety-headers.ts'
import { longListIn } from './validation.ts'

/** What route plugins take: `(app: HttpServer) => Promise<void>`. */
export type HttpServer = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

export interface ServerOptions extends Partial<Omit<HttpOptions, 'host' | 'port' | 'certFile' | 'keyFile'>> {
  readonly logger: Logger
  /** HTTPS; with `ca` only for clients that show a certificate of that authority. */
  readonly tls?: ServerTls | undefined
  readonly compatibility?: Compatibility
}

/** Each as PEM. */
export interface ServerTls {
  readonly cert: string
  readonly key: string
  readonly ca?: string
  /** Clients are asked for a certificate, and taken with any or none: what reads it (client-certificate.ts) decides. */
  readonly asksForCertificate?: boolean
}

/**
 * A server without routes: register plugins, then `listen`. What holds for each of its routes:
 *
 * - Bodies are JSON (a plugin may take other types in its own scope), checked as they are: nothing is converted or removed.
 *   Query strings are converted to the schema's numbers and booleans; a repeated parameter is refused. Defaults are filled in.
 * - Every error is answered in one shape (error-answer.ts). Throw HttpError; anything else is a 500 that tells nothing.
 * - No line is logged for a request that succeeds.
 * - A body with a Content-Encoding or another Transfer-Encoding than chunked is refused: no parser is given one.
 * - While it closes, requests on open connections are answered 503.
 *
 * Errors are answered before rights are looked at in the order 401 (thrown in `onRequest`), shape, 403 (thrown in the handler).
 */
export function createServer({
  logger,
  bodyBytesMax = 1_048_576,
  requestTimeoutMs = 30_000,
  keepAliveTimeoutMs = 72_000,
  trustedProxies = [],
  allowedOrigins = [],
  tls,
  compatibility = 'none',
}: ServerOptions): HttpServer {
  const answerError = openErrorAnswer(logger)
  // Fastify's own lines below warn say nothing that the process does not say itself.
  const loggerInstance: FastifyBaseLogger = logger.child({}, { level: logger.isLevelEnabled('warn') ? 'warn' : logger.level })
  const app = fastify({
    loggerInstance,
    // A child for each request would cost more than a request of ingest should; lines carry the request's id themselves.
    childLoggerFactory: parent => parent,
    logController: new LogController({ disableRequestLogging: true }),
    requestIdHeader: false,
    genReqId: () => randomUUID(),
    bodyLimit: bodyBytesMax,
    trustProxy: false,
    return503OnClosing: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    // Slow clients are looked for each second; headers alone must arrive in half of the time for the whole.
    // A missing host is answered by headFault: the answer of Node.js has no body.
    ...protocol(tls, { headersTimeout: Math.ceil(requestTimeoutMs / 2), connectionsCheckingInterval: 1000, requireHostHeader: false }),
    routerOptions: { maxParamLength: 1024 },
    rewriteUrl: ({ url = '' }: IncomingMessage) => (compatibility === 'none' ? url : plainUrl(url)),
    clientErrorHandler: refuseConnection,
    frameworkErrors: (error, request, reply) => void answerError(error, request, reply),
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: true,
        allErrors: true,
        verbose: true,
        keywords: ['allowed', 'optionalBody'],
      },
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  app.decorate(clientAddressesKey, openClientAddresses(trustedProxies, logger))
  app.decorate(trustedProxiesKey, openTrustedProxies(trustedProxies))
  // Compiled with its first answer: a route describes up to ten, and a start would wait for those of errors, which pass no serializer.
  app.setSerializerCompiler(({ schema }) => {
    let serialize: ((data: unknown) => string) | undefined
    return data => (serialize ??= fastJsonStringify(schema as AnySchema))(data)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonParser)

  let closing = false
  const safety = safetyHeaders()
  const absent = trackRoutes(app)
  app.addHook('preClose', async () => {
    closing = true
  })
  if (allowedOrigins.length > 0) allowOrigins(app, allowedOrigins)
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(safety).header('x-request-id', request.id)
    const { headers } = request
    if (compatibility !== 'none' && headers.authorization !== undefined) headers.authorization = plainAuthorization(headers.authorization)
    if (closing) done(new HttpError('unavailable', 'this process is stopping: try again'))
    else done(headFault(request.raw) ?? (request.is404 ? absent(request, reply) : undefined))
  })
  // Without a listener Node.js answers these itself, with an empty 417.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  // After `onRequest`, so that 401 comes before it, and for every parser of a body.
  app.addHook('preParsing', (request, _reply, _payload, done) => done(encodedBodyFault(request.raw)))
  app.addHook('preValidation', (request, _reply, done) => {
    try {
      prepareQuery(request)
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

/** Fastify takes the options of Node's server under the name of its protocol. The types of its two kinds of server part here, and nobody above needs to know. */
function protocol(tls: ServerTls | undefined, options: HttpServerOptions): { http: HttpServerOptions } {
  if (tls === undefined) return { http: options }
  const { asksForCertificate = false, ...texts } = tls
  const asks = { requestCert: asksForCertificate || tls.ca !== undefined, rejectUnauthorized: tls.ca !== undefined }
  // A handshake is a part of the time in which a head must have come: Node.js alone would wait for two minutes.
  return { https: { ...options, ...texts, ...asks, minVersion: 'TLSv1.2', handshakeTimeout: options.headersTimeout } } as unknown as {
    http: HttpServerOptions
  }
}
