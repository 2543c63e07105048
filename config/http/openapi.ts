// The description of the interfaces: OpenAPI 3.1 at /openapi.json, made from the routes' schemas, and a page that renders it at /docs.

import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifySchema } from 'fastify'
import { completeDocument, type Document } from './openapi-document.ts'
import type { HttpServer } from './server.ts'

/** In the order in which a person needs them; a document has those of its operations. */
const tags = [
  { name: 'users', description: 'Register, see and change users. Begin here: `POST /users`, then `POST /tokens`.' },
  { name: 'tokens', description: 'Sign in: an email and a password for the token that other requests carry.' },
  { name: 'things', description: 'Devices. Each has a key, by which it publishes and reads.' },
  { name: 'channels', description: 'Where things publish, and where messages are read.' },
  { name: 'connections', description: 'Which things may use which channels.' },
  { name: 'provisioning', description: 'Make everything that a device needs by one request, as the layout of the platform has it.' },
  { name: 'bootstrap', description: 'What a device fetches with its external id and key, and its owner keeps for it.' },
  { name: 'messages', description: 'Publish messages, as a thing with its key: SenML packs and JSON documents.' },
  { name: 'reading', description: 'Read what is stored, page by page, or follow messages as they come.' },
  { name: 'sharing', description: 'Give other users rights on a thing.' },
  { name: 'groups', description: 'Give many users rights on many things.' },
  { name: 'policies', description: 'The rights themselves, for administrators.' },
  { name: 'certificates', description: 'Certificates by which things show who they are, and the list of those that are revoked.' },
  { name: 'keys', description: 'Credentials for programs, which may be revoked one by one.' },
  { name: 'audit', description: 'Who changed what, for administrators.' },
  { name: 'administration', description: 'Dead letters, and the way of a message, for administrators.' },
  { name: 'operation', description: 'Health and metrics, for what watches the platform.' },
]

/** A path parameter that takes the rest of the path has no name of its own in a route, and needs one in OpenAPI. */
const restOfPath = 'subtopic'

/**
 * Register before the parts whose routes are to be described: a route that stands already is not seen.
 *
 * @param version of the product, as the document's own version
 */
export function openapiRoutes(app: HttpServer, { version }: { version: string }): void {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version,
        description: 'Manages users, things, channels and their connections; takes messages of devices, and gives them back.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } as { name: string },
      },
      servers: [{ url: '/' }],
      tags,
      components: {
        securitySchemes: {
          user: { type: 'http', scheme: 'bearer', description: 'A token of POST /tokens, or an API key of POST /keys.' },
          thing: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'The word Thing, a space, and the key of the thing.' },
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
    uiConfig: { docExpansion: 'list', deepLinking: true, tryItOutEnabled: true },
    // The page's own files and inline styles, and nothing from anywhere else; no upgrade to HTTPS, which a plain address could not serve.
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
