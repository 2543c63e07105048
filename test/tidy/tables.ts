// Tables that READMEs hold and code makes: options from their schemas, errors from their table.

import type { TObject } from 'typebox'
import { Type } from 'typebox'
import { errors } from '../../config/http/errors.ts'
import { optionTable } from '../../config/options.ts'
import type { Finding, SourceFile } from './files.ts'

/** The roles by name, each with its options. */
export type Roles = Readonly<Record<string, TObject>>

/**
 * The text with its tables made anew. Between `<!-- options:NAME -->` and `<!-- /options -->` stands the table of a role (`up`), of one of its
 * sections (`writer document.store`), or of some sections of any role (`http`, `http,logging`); between `<!-- errors -->` and `<!-- /errors -->` that of all errors.
 *
 * @throws Error for a name that is neither role nor section, and for a marker without its end
 */
export function withTables(text: string, roles: Roles): string {
  const begins = text.match(/<!-- (options:|errors -->)/g)?.length ?? 0
  let made = 0
  const result = text.replace(
    /(<!-- (?:options:([\w ,.-]+)|errors) -->\n)[\s\S]*?(<!-- \/(options|errors) -->)/g,
    (_all, begin: string, name: string | undefined, end: string) => {
      made++
      return `${begin}\n${name === undefined ? errorTable() : optionTable(schemaOf(name, roles))}\n\n${end}`
    },
  )
  if (made !== begins) throw new Error('a marker has no end: write <!-- /options --> or <!-- /errors --> below it')
  return result
}

function schemaOf(name: string, roles: Roles): TObject {
  const role = roles[name]
  if (role !== undefined) return role
  const [ofRole, ofSection = ''] = name.split('.')
  const section = (roles[ofRole!]?.properties as Record<string, TObject> | undefined)?.[ofSection]
  if (section !== undefined) return Type.Object({ [ofSection]: section })
  const sections = Object.values(roles).flatMap(schema => Object.entries(schema.properties as Record<string, TObject>))
  const chosen = name.split(',').map(part => {
    const section = sections.find(([key]) => key === part)
    if (section === undefined)
      throw new Error(
        `there is no role and no section ${part}: known are ${[...Object.keys(roles), ...sections.map(([key]) => key)].join(', ')}`,
      )
    return section
  })
  return Type.Object(Object.fromEntries(chosen))
}

function errorTable(): string {
  const rows = Object.entries(errors).map(([code, { status, title }]) => `| ${status} | \`${code}\` | ${title} |`)
  return ['| Status | Code | Meaning |', '| --- | --- | --- |', ...rows].join('\n')
}

/** READMEs whose tables are not what the code makes now. */
export function tables(files: readonly SourceFile[], roles: Roles): Finding[] {
  return files
    .filter(({ path, text }) => path.endsWith('README.md') && withTables(text, roles) !== text)
    .map(({ path }) => `${path}: its tables are not those of the code: run npm test -- --write`)
}
