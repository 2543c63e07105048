// The console: a page on which people see and use what a process serves. Its files need no credentials: what they show, they ask for.

import { readFile } from 'node:fs/promises'
import { Type } from 'typebox'
import { HttpError } from '../http/errors.ts'
import type { HomePage } from '../http/home.ts'
import { takesGzip } from '../http/requests/accept.ts'
import type { HttpServer } from '../http/server.ts'
import { readAssets } from './assets.ts'

/** Scripts, styles and requests of this address alone: nothing inline, nothing of others (https://www.w3.org/TR/CSP3/). */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The page that `GET /` answers to browsers. */
export async function readConsolePage(): Promise<HomePage> {
  return { html: await readFile(new URL('page/index.html', import.meta.url), 'utf8'), policy }
}

/** Serves the page's files below `/console/`. */
export function consoleRoutes(app: HttpServer): void {
  let assets: ReturnType<typeof readAssets> | undefined
  app.register(async (app: HttpServer) => {
    app.get('/console/*', { schema: { hide: true, params: Type.Object({ '*': Type.String() }) } }, async (request, reply) => {
      assets ??= readAssets()
      const asset = (await assets).get(request.params['*'])
      if (asset === undefined) throw new HttpError('not_found', 'no such file of the console')
      reply.header('vary', 'Accept-Encoding').header('etag', asset.etag).header('cache-control', 'no-cache')
      if (request.headers['if-none-match'] === asset.etag) return reply.code(304).send()
      const isCoded = takesGzip(request.headers['accept-encoding'])
      if (isCoded) reply.header('content-encoding', 'gzip')
      return reply.type(asset.mediaType).send(isCoded ? asset.gzipped : asset.bytes)
    })
  })
}
