// Serves the API description: OpenAPI 3.1 at /openapi.json, generated from the routes' schemas, and a page at /docs that renders it.

import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifySchema } from 'fastify'
import type { HttpServer } from '../server.ts'
import { completeDocument, type Document } from './document.ts'

/** In the order in which users need them; a document contains those of its operations. */
const tags = [
  { name: 'users', description: 'Register, view and change users. Start here: `POST /users`, then `POST /tokens`.' },
  { name: 'tokens', description: 'Sign in with an email and a password to get a token for the other requests.' },
  { name: 'things', description: 'Devices. Each has a key, with which it publishes and reads.' },
  { name: 'channels', description: 'Where things publish, and where messages are read.' },
  { name: 'connections', description: 'Which things may use which channels.' },
  { name: 'provisioning', description: 'Create everything that a device needs in one request, according to the layout of the platform.' },
  { name: 'bootstrap', description: 'Configuration that a device fetches with its external id and key, and that its owner manages.' },
  { name: 'messages', description: 'Publish messages (SenML packs and JSON documents) with the key of a thing, or an API key.' },
  { name: 'brokers', description: 'What EMQX and Mosquitto ask before they admit a device with the key of a thing.' },
  { name: 'reading', description: 'Read stored messages page by page, or follow new ones as they arrive.' },
  { name: 'sharing', description: 'Give other users rights on a thing.' },
  { name: 'groups', description: 'Give many users rights on many things.' },
  { name: 'policies', description: 'Individual access rights, for administrators.' },
  { name: 'certificates', description: 'Certificates with which things authenticate, and the list of revoked ones.' },
  { name: 'keys', description: 'Credentials for programs, which can be revoked individually.' },
  { name: 'audit', description: 'Who changed what, for administrators.' },
  { name: 'administration', description: 'Dead letters, traces and erasures of messages, for administrators.' },
  { name: 'console', description: 'What the page at `/` of `./sluice up` shows besides: for people who watch, not for programs.' },
  { name: 'operation', description: 'Health and metrics, for monitoring.' },
]

/** Of the document, and of the page in the browser. */
const title = 'Sluice API'

/** A wildcard at the end of a path has no name in a route, but needs one in OpenAPI. */
const restOfPath = 'subtopic'

/**
 * Register this before the routes that it should describe: earlier routes are not included.
 *
 * @param version of the product, used as the document's version
 */
export function openapiRoutes(app: HttpServer, { version }: { version: string }): void {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title,
        version,
        description: 'Manages users, things, channels and their connections; stores and serves messages of devices.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } as { name: string },
      },
      servers: [{ url: '/' }],
      tags,
      components: {
        securitySchemes: {
          user: { type: 'http', scheme: 'bearer', description: 'A token of POST /tokens, or an API key of POST /keys.' },
          thing: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'The word Thing, a space, and the thing key.' },
          external: {
            type: 'apiKey',
            in: 'header',
            name: 'Authorization',
            description: 'The word Thing, a space, and the external key of the device.',
          },
        },
      },
    },
    transform: ({ schema, url }) => ({ schema: withRestNamed(schema), url: url.replace('*', `:${restOfPath}`) }),
    transformObject: made => completeDocument((made as unknown as { readonly openapiObject: Document }).openapiObject) as object,
  })
  app.register(swaggerUi, {
    routePrefix: '/docs',
    theme: { title },
    uiConfig: { docExpansion: 'list', deepLinking: true, tryItOutEnabled: true },
    // Allows the page's own files and inline styles only. No upgrade to HTTPS, because the server may be reached over plain HTTP.
    staticCSP:
      "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; connect-src 'self'",
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}

function withRestNamed(schema: FastifySchema): FastifySchema {
  const params = schema?.params as { readonly properties: Readonly<Record<string, unknown>> } | undefined
  if (params?.properties['*'] === undefined) return schema
  const { '*': rest, ...properties } = params.properties
  return { ...schema, params: { ...params, properties: { ...properties, [restOfPath]: rest } } }
}
