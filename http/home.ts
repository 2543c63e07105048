// `GET /`: what runs here and where to go on, as a page for browsers and as links for programs.

import { createHash } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { errorAnswers } from './openapi/error-schema.ts'
import { mediaRanges, weightOf } from './requests/accept.ts'
import type { HttpServer } from './server.ts'

export interface HomeOptions {
  readonly version: string
  /** The parts of the platform that this process serves: `ingest`. */
  readonly services: readonly string[]
  /** Whether this port serves `/metrics`. */
  readonly hasMetrics: boolean
  /** More by name, for programs: paths, and addresses of other protocols. Called for each request. */
  readonly more?: () => Readonly<Record<string, string>>
  /** What browsers get; by default a page of links. */
  readonly page?: HomePage
}

export interface HomePage {
  readonly html: string
  /** Its `Content-Security-Policy`. */
  readonly policy: string
}

/** By name: the path, and what people find there. */
const links = {
  docs: ['/docs', 'API: every endpoint, to read and to try'],
  openapi: ['/openapi.json', 'the same as OpenAPI 3.1'],
  health: ['/health', 'health checks'],
  metrics: ['/metrics', 'metrics for Prometheus'],
} as const

const Home = Type.Object(
  {
    name: Type.Literal('Sluice'),
    version: Type.String({ examples: ['1.2.3'] }),
    services: Type.Array(Type.String(), { description: 'The parts of the platform that this process serves.', examples: [['ingest']] }),
    links: Type.Record(Type.String(), Type.String(), {
      description: 'Paths by name; `mqtt` is an address.',
      examples: [{ docs: '/docs' }],
    }),
  },
  { title: 'Home' },
)

/** Needs no credentials, so it says only what anyone may know. */
export function homeRoute(app: HttpServer, { version, services, hasMetrics, more = () => ({}), page }: HomeOptions): void {
  const shown = Object.entries(links).filter(([name]) => name !== 'metrics' || hasMetrics)
  const home = {
    name: 'Sluice' as const,
    version,
    services: [...services],
    links: Object.fromEntries(shown.map(([name, [path]]) => [name, path] as const)),
  }
  const { html, policy } =
    page ??
    linksPage(
      home,
      shown.map(([, link]) => link),
    )
  const schema = {
    tags: ['operation'],
    security: [],
    operationId: 'getHome',
    summary: 'What runs here, with links; a page for browsers',
    response: {
      ...errorAnswers(),
      200: {
        description: 'What runs here.',
        content: { 'application/json': { schema: Home }, 'text/html': { schema: Type.String(), example: '<!doctype html>…' } },
      },
    },
  }
  app.register(async (app: HttpServer) => {
    app.get('/', { schema }, async (request, reply) => {
      const ranges = mediaRanges(request.headers.accept)
      reply.header('vary', 'Accept, Origin')
      if (weightOf('text/html', ranges) <= weightOf('application/json', ranges)) return { ...home, links: { ...home.links, ...more() } }
      return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html)
    })
  })
}

const style = 'body{font:1rem/1.6 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}'

function linksPage({ version, services }: Static<typeof Home>, shown: readonly (typeof links)[keyof typeof links][]): HomePage {
  const items = shown.map(([path, what]) => `<li><a href="${path}">${path}</a>: ${what}</li>`)
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sluice</title>
<style>${style}</style>
<h1>Sluice ${escaped(version)}</h1>
<p>Stores what devices send, each message exactly once. Here: ${escaped(services.join(', '))}.</p>
<ul>
${items.join('\n')}
</ul>
<p>To publish and read the first message, follow <em>The first five minutes</em> in <code>README.md</code>.</p>
</html>
`
  // Nothing but this style: https://www.w3.org/TR/CSP3/#external-hash
  const hash = createHash('sha256').update(style).digest('base64')
  return { html, policy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'` }
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, one => `&#${one.charCodeAt(0)};`)
}
