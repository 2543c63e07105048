// Code in documents is copied from its file, so that a guide always shows the current code; and errors that a guide explains are those of the code.

import { type Finding, isCode, isProduct, type SourceFile } from './files.ts'

/**
 * Updates the excerpts in the text. Between `<!-- code:PATH NAME -->` and `<!-- /code -->` is the top-level declaration of that name in the file, with
 * its docstring.
 *
 * @throws Error for a missing file or name, and for a marker without its end
 */
export function withExcerpts(text: string, files: readonly SourceFile[]): string {
  const begins = text.match(/<!-- code:/g)?.length ?? 0
  let made = 0
  const result = text.replace(
    /(<!-- code:(\S+) (\S+) -->\n)[\s\S]*?(<!-- \/code -->)/g,
    (_all, begin: string, path: string, name: string, end: string) => {
      made++
      return `${begin}\`\`\`ts\n${declarationOf(path, name, files)}\n\`\`\`\n${end}`
    },
  )
  if (made !== begins) throw new Error('an excerpt has no end: write <!-- /code --> below it')
  return result
}

function declarationOf(path: string, name: string, files: readonly SourceFile[]): string {
  const text = files.find(file => file.path === path)?.text
  if (text === undefined) throw new Error(`there is no file ${path} to show ${name} of`)
  const lines = text.split('\n')
  const begins = new RegExp(`^(export )?(async )?(function\\*?|interface|type|const|class) ${name}\\b`)
  const at = lines.findIndex(line => begins.test(line))
  if (at < 0) throw new Error(`${path} declares nothing called ${name} at its top level`)
  let from = at
  while (/^(\/\*\*| \*)/.test(lines[from - 1] ?? '')) from--
  // A line that ends with a bracket continues to the line that closes it.
  const to = /[([{]$/.test(lines[at]!) ? lines.findIndex((line, nth) => nth > at && /^[)\]}]+$/.test(line)) : at
  return lines.slice(from, to + 1).join('\n')
}

/** Documents whose excerpts are outdated. */
export function excerpts(files: readonly SourceFile[]): Finding[] {
  return files
    .filter(({ path, text }) => path.endsWith('.md') && withExcerpts(text, files) !== text)
    .map(({ path }) => `${path}: its excerpts are not those of the code: run npm test -- --write`)
}

/** Errors that operators search for, with `…` for what differs: each part between must be in the code. */
const guidesOfErrors = ['docs/guides/operate.md', 'docs/guides/backup-and-restore.md']

/** Every text of several words in the second column of its tables is an error, quoted in the same way. */
const pageOfLimits = 'docs/limits.md'

/** Its errors are explained too. */
const launcher = 'sluice'

export function quotedErrors(files: readonly SourceFile[]): Finding[] {
  const code = files.filter(file => (isCode(file) && isProduct(file)) || file.path === launcher).map(({ text }) => text)
  return files.flatMap(file =>
    quotesIn(file)
      .filter(message => !message.split('…').every(part => code.some(text => text.includes(part.replace(/^[ ,:]+|[ ,:]+$/g, '')))))
      .map(message => `${file.path}: the code has no error "${message}"`),
  )
}

function quotesIn({ path, text }: SourceFile): string[] {
  if (path === pageOfLimits) {
    const cells = text.split('\n').map(line => line.split('|')[2] ?? '')
    return cells.flatMap(cell => quotesOf(cell, /`([^`]*)`/g)).filter(quote => quote.includes(' '))
  }
  return guidesOfErrors.includes(path) ? quotesOf(text, /`((?:…|the )[^`]*…[^`]*|…[^`]*)`/g) : []
}

function quotesOf(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, message = '']) => message)
}
