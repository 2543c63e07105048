// Documents name the test of each promise, and the files of the code: they must exist.

import type { Finding, SourceFile } from './files.ts'

/** Missing files that documents name. A name may be the end of a path, and contain alternatives: `things/{keys,things}.test.ts`. */
export function namedFiles(files: readonly SourceFile[]): Finding[] {
  const paths = files.map(({ path }) => `/${path}`)
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) =>
        namesIn(line)
          .filter(name => !paths.some(one => one.endsWith(`/${name}`)))
          .map(name => `${path}:${index + 1}: names the file ${name}, which is not there`),
      ),
    )
}

/** A pattern with a star is not a name. `../` before one is left out. */
function namesIn(line: string): string[] {
  return [...line.matchAll(/(?<![\w./{},*<>-])(?:\.\.?\/)*([\w{][\w./{},*-]*\.ts)\b/g)].flatMap(([, name = '']) =>
    name.includes('*') ? [] : alternativesOf(name),
  )
}

function alternativesOf(name: string): string[] {
  const braces = /\{([^}]*)\}/.exec(name)
  if (braces === null) return [name]
  return braces[1]!.split(',').flatMap(one => alternativesOf(name.replace(braces[0], one)))
}
