// Commands in documents: a test runs each block of `sh`, or a comment above it gives the reason why not.

import type { Finding, SourceFile } from './files.ts'

/** The documents at the root, and all of docs/. A folder's README is for developers of that folder. */
const isShown = (path: string): boolean => /^(docs\/.+|[^/]+)\.md$/.test(path)

export function shownCommands(files: readonly SourceFile[]): Finding[] {
  const tests = files.filter(({ path, text }) => /^test\/.*\.test\.ts$/.test(path) && text.includes('extractBlocks('))
  const isRun = (document: string, name: string): boolean =>
    tests.some(({ text }) => text.includes(`'${name}'`) && namesDocument(text, document))
  return files
    .filter(({ path }) => isShown(path))
    .flatMap(({ path, text }) =>
      blocksOf(text).flatMap(({ line, language, marker }) => {
        const [, name] = /^<!-- run:(\S+) -->$/.exec(marker) ?? []
        if (name !== undefined) return isRun(path, name) ? [] : [`${path}:${line}: no test runs the blocks run:${name} of this document`]
        if (language !== 'sh' || /^<!-- not run: \S.* -->$/.test(marker)) return []
        return [`${path}:${line}: no test runs this block: mark it <!-- run:NAME --> and run it, or <!-- not run: reason -->`]
      }),
    )
}

/** Many documents have the same name as one at the root, which therefore must follow a quote or the path to the root. */
function namesDocument(test: string, document: string): boolean {
  if (document.includes('/')) return test.includes(document)
  return [`'${document}`, `../${document}`].some(named => test.includes(named))
}

interface ShownBlock {
  readonly line: number
  readonly language: string
  /** The previous line that is not empty. */
  readonly marker: string
}

function blocksOf(text: string): ShownBlock[] {
  const blocks: ShownBlock[] = []
  let fence: string | undefined
  let above = ''
  for (const [at, line] of text.split('\n').entries()) {
    const [, marks, language = ''] = /^\s*(`{3,}|~{3,})(\w*)/.exec(line) ?? []
    if (fence === undefined && marks !== undefined) {
      fence = marks
      blocks.push({ line: at + 1, language, marker: above.trim() })
    } else if (marks === fence) fence = undefined
    if (line.trim() !== '') above = line
  }
  return blocks
}
