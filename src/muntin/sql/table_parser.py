"""Statements about tables: CREATE TABLE, INSERT INTO and DELETE FROM; and the columns that CREATE declares."""

from __future__ import annotations

from sqlglot import TokenType, exp

from muntin.sql.place import Span
from muntin.sql.select_parser import SelectParser
from muntin.sql.syntax import ColumnSyntax, CreateTableSyntax, DeleteSyntax, InsertSyntax, Name
from muntin.sql.type_name import unknown_type


class TableParser(SelectParser):
    """Reads what stands after the first words of such a statement."""

    def create_table(self) -> CreateTableSyntax:
        """`limits (account BIGINT, daily DOUBLE, PRIMARY KEY (account))`."""
        name = self.name("a table name")
        self._expect(TokenType.L_PAREN, "'(' and the columns")
        columns: list[ColumnSyntax] = []
        key: tuple[Name, ...] = ()
        while True:
            declares_key = self._curr
            if self._match(TokenType.PRIMARY_KEY):
                found = self.names_in_parentheses("the columns of the primary key")
            else:
                columns.append(self.column_definition(may_be_key=True))
                found = (columns[-1].name,) if self._match(TokenType.PRIMARY_KEY) else ()
            if key and found:
                self.fault("a table has one PRIMARY KEY; name all its columns in it", declares_key)
            key = key or found
            if not self._match(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, "',' or ')'")
        if not key:
            self.fault(
                "a table needs a primary key, by which rows are replaced: add PRIMARY KEY (column, …)",
                self._prev,
            )
        return CreateTableSyntax(name, tuple(columns), key)

    def insert(self) -> InsertSyntax:
        """`INTO limits (account, daily) VALUES (7, 100.0), (8, NULL)`."""
        if not self.word("INTO"):
            self.fault(f"expected INTO and a table after INSERT, found {self.found()}")
        name = self.name("a table name")
        is_listed = self._curr.token_type == TokenType.L_PAREN
        columns = self.names_in_parentheses("the columns") if is_listed else ()
        if not self._match(TokenType.VALUES):
            self.fault(
                f"expected VALUES and rows in parentheses, found {self.found()}; load takes files and frames"
            )
        rows: list[tuple[exp.Expr, ...]] = []
        places: list[Span] = []
        while True:
            places.append((self._curr.start, self._curr.end + 1))
            self._expect(TokenType.L_PAREN, "'(' and the values of a row")
            values = [self._value()]
            while self._match(TokenType.COMMA):
                values.append(self._value())
            self._expect(TokenType.R_PAREN, "',' or ')'")
            rows.append(tuple(values))
            if not self._match(TokenType.COMMA):
                return InsertSyntax(name, columns, tuple(rows), tuple(places))

    def _value(self) -> exp.Expr:
        """A constant; `5 MINUTES` may stand for INTERVAL '5 minutes', as in a window."""
        start = self._curr
        is_number = start.token_type == TokenType.NUMBER
        if is_number and self._next.token_type == TokenType.VAR:
            length = self.duration()
            made = exp.Interval(this=exp.Literal.string(f"{length} MICROSECONDS"))
            made.meta["span"] = (start.start, self._prev.end + 1)
            return made
        return self.condition()

    def delete(self) -> DeleteSyntax:
        """`FROM limits WHERE account = 7`."""
        if not self._match(TokenType.FROM):
            self.fault(f"expected FROM and a table after DELETE, found {self.found()}")
        name = self.name("a table name")
        return DeleteSyntax(name, self.condition() if self._match(TokenType.WHERE) else None)

    def column_definition(self, may_be_key: bool = False) -> ColumnSyntax:
        """A name and a type; the column of a table may be its PRIMARY KEY."""
        name = self.name("a column name")
        at = self._curr
        kind = self._parse_types(schema=True)
        if kind is None:
            if at.token_type == TokenType.VAR:
                self.fault(unknown_type(at.text), at)
            self.fault(f"column '{name.text}' needs a type, such as DOUBLE; found {self.found()}", at)
        ends = (TokenType.COMMA, TokenType.R_PAREN)
        if self._curr.token_type not in ((*ends, TokenType.PRIMARY_KEY) if may_be_key else ends):
            self.fault(f"expected ',' or ')' after a column's type, found {self.found()}")
        return ColumnSyntax(name, kind)
