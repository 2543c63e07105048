// Paths without a handler: 405 with the methods that the path does take, else 404.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { HttpError } from './errors.ts'

interface Pattern {
  readonly expression: RegExp
  readonly methods: Set<string>
}

/** Notes every route from here on. Returns what a request for no route is answered with. */
export function trackRoutes(app: FastifyInstance): (request: FastifyRequest, reply: FastifyReply) => HttpError {
  const patterns = new Map<string, Pattern>()
  app.addHook('onRoute', ({ url, method }) => {
    // The route of preflights, which is there for every path and makes none of them exist.
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

/** `/things/:id/*` as an expression; only parameters of a whole segment are in use. */
function expressionOf(url: string): RegExp {
  const source = url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/:[^/]+/g, '[^/]+')
  return new RegExp(`^${source.replaceAll('\\*', '.*')}$`)
}
