// The tests that READMEs name, as the ones that show a promise: each is there.

import type { Finding, SourceFile } from './files.ts'

/** Tests that READMEs name and nobody finds. A name may be the end of a path, and hold alternatives: `things/{keys,things}.test.ts`. */
export function namedTests(files: readonly SourceFile[]): Finding[] {
  const paths = files.map(({ path }) => `/${path}`)
  return files
    .filter(({ path }) => path.endsWith('README.md'))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) =>
        namesIn(line)
          .filter(name => !paths.some(one => one.endsWith(`/${name}`)))
          .map(name => `${path}:${index + 1}: names the test ${name}, which is not there`),
      ),
    )
}

/** A pattern with a star is no name. */
function namesIn(line: string): string[] {
  return [...line.matchAll(/[\w./{},*-]+\.test\.ts/g)].flatMap(([name]) => (name.includes('*') ? [] : alternativesOf(name)))
}

function alternativesOf(name: string): string[] {
  const braces = /\{([^}]*)\}/.exec(name)
  if (braces === null) return [name]
  return braces[1]!.split(',').flatMap(one => alternativesOf(name.replace(braces[0], one)))
}
