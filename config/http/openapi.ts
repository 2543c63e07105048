// The description of the interfaces: OpenAPI 3.1 at /openapi.json, made from the routes' schemas, and a page that renders it at /docs.

import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { HttpServer } from './server.ts'

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
      },
      components: {
        securitySchemes: {
          user: { type: 'http', scheme: 'bearer', description: 'A token of POST /tokens.' },
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
