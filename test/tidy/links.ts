// Links from a document to another file, and to a heading in it: each must have a target.

import { posix } from 'node:path'
import type { Finding, SourceFile } from './files.ts'

/** Relative links in Markdown files whose file or heading does not exist. */
export function links(files: readonly SourceFile[]): Finding[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const paths = [...texts.keys()]
  const isThere = (path: string): boolean => path === '.' || texts.has(path) || paths.some(one => one.startsWith(`${path}/`))
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      linksIn(text).flatMap(({ line, target }) => {
        const [file = '', heading] = target.split('#')
        const linked = file === '' ? path : posix.join(posix.dirname(path), file)
        if (!isThere(linked)) return [`${path}:${line}: links to ${target}, which is not there`]
        if (heading === undefined || !linked.endsWith('.md') || anchorsOf(texts.get(linked)!).has(heading)) return []
        return [`${path}:${line}: links to ${target}, and ${linked} has no such heading`]
      }),
    )
}

function linksIn(text: string): { line: number; target: string }[] {
  return withoutBlocks(text).flatMap((line, index) =>
    [...line.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = '']) => ({ line: index + 1, target }))
      .filter(({ target }) => !/^[a-z]+:/.test(target)),
  )
}

/** Headings in the form of links: lower case, without punctuation, with hyphens for blanks. */
function anchorsOf(text: string): Set<string> {
  const headings = withoutBlocks(text).flatMap(line => /^#+ (.*)$/.exec(line)?.[1] ?? [])
  return new Set(
    headings.map(heading =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

/** The lines of a document; those of code are empty. */
function withoutBlocks(text: string): string[] {
  let isCode = false
  return text.split('\n').map(line => {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode
    else if (!isCode) return line
    return ''
  })
}
